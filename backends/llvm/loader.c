/* loader.c: a small linker for one object.  Layer: llvm.  May include: core.
 *
 *   image:  | .text | .rodata.cst4 | ... | slot 0 | slot 1 | ...    one slot for each symbol
 *   slot:   address of the symbol (8 bytes), jmp *address(%rip) (6 bytes), 2 bytes unused
 *
 * Code reaches external functions by a 32-bit displacement to their slot's jump, since the function
 * itself may be further away than 2 GB. The image is written, then made executable: never both.
 * Every number read from the object is checked before it is used. */
#include "llvm/loader.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOT = 16, JUMP = 8, MAX_IMAGE = 1 << 28, SKIPPED = -1 };

/** An object while it is loaded. */
typedef struct image {
    const uint8_t *file;
    size_t file_size;
    const Elf64_Shdr *sections;
    size_t section_count;
    int64_t *offsets; /* of each section in the image; SKIPPED */
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names; /* of the symbols */
    size_t names_size;
    uint8_t *base;
    size_t slots, size;
    const jitc_resolver *resolver;
} image;

static jit_status damaged(const char *what) {
    return jitc_fail(JIT_COMPILE_FAILED, "llvm: object code is damaged: %s", what);
}

/** Does [offset, offset + size) lie within the file? */
static bool in_file(const image *m, uint64_t offset, uint64_t size) {
    return offset <= m->file_size && size <= m->file_size - offset;
}

static jit_status read_header(image *m) {
    const Elf64_Ehdr *h = (const void *) m->file;
    if (m->file_size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return damaged("not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64 || h->e_type != ET_REL)
        return damaged("not an x86-64 relocatable");
    if (h->e_shentsize != sizeof *m->sections || h->e_shoff % 8 != 0 ||
        !in_file(m, h->e_shoff, h->e_shnum * sizeof *m->sections))
        return damaged("section headers");
    m->sections = (const void *) (m->file + h->e_shoff);
    m->section_count = h->e_shnum;
    return JIT_OK;
}

static jit_status read_symbols(image *m, const Elf64_Shdr *s) {
    if (m->symbols)
        return damaged("two symbol tables");
    if (s->sh_offset % 8 != 0 || !in_file(m, s->sh_offset, s->sh_size) ||
        s->sh_link >= m->section_count)
        return damaged("symbol table");
    const Elf64_Shdr *names = &m->sections[s->sh_link];
    if (!in_file(m, names->sh_offset, names->sh_size) || names->sh_size == 0)
        return damaged("symbol names");
    m->symbols = (const void *) (m->file + s->sh_offset);
    m->symbol_count = s->sh_size / sizeof *m->symbols;
    m->names = (const char *) m->file + names->sh_offset;
    m->names_size = names->sh_size;
    if (m->names[m->names_size - 1] != 0)
        return damaged("symbol names");
    return JIT_OK;
}

/** Is the section part of the image? Tables for unwinding are not: kernels do not throw. */
static bool is_loaded(const Elf64_Shdr *s) {
    return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type != SHT_X86_64_UNWIND;
}

static jit_status place_section(image *m, size_t i) {
    const Elf64_Shdr *s = &m->sections[i];
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    m->offsets[i] = SKIPPED;
    if (s->sh_type == SHT_SYMTAB)
        return read_symbols(m, s);
    if (!is_loaded(s))
        return JIT_OK;
    if (align > 4096 || (align & (align - 1)) || s->sh_size > MAX_IMAGE)
        return damaged("section size");
    if (s->sh_type != SHT_NOBITS && !in_file(m, s->sh_offset, s->sh_size))
        return damaged("section outside of the file");
    m->size = (m->size + align - 1) & ~(align - 1);
    m->offsets[i] = (int64_t) m->size;
    m->size += s->sh_size;
    return m->size > MAX_IMAGE ? damaged("size") : JIT_OK;
}

static jit_status place_sections(image *m) {
    TRY(jitc_calloc(m->section_count ? m->section_count : 1, sizeof *m->offsets,
                    (void **) &m->offsets));
    for (size_t i = 0; i < m->section_count; i++)
        TRY(place_section(m, i));
    if (!m->symbols)
        return damaged("no symbol table");
    m->slots = (m->size + SLOT - 1) & ~(size_t) (SLOT - 1);
    m->size = m->slots + SLOT * m->symbol_count;
    return m->size > MAX_IMAGE ? damaged("size") : JIT_OK;
}

static jit_status map_image(image *m) {
    void *base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return jitc_fail(JIT_OUT_OF_MEMORY, "llvm: no memory for %zu bytes of code", m->size);
    m->base = base;
    for (size_t i = 0; i < m->section_count; i++)
        if (m->offsets[i] != SKIPPED && m->sections[i].sh_type != SHT_NOBITS)
            memcpy(m->base + m->offsets[i], m->file + m->sections[i].sh_offset,
                   m->sections[i].sh_size);
    return JIT_OK;
}

static jit_status symbol_name(const image *m, const Elf64_Sym *s, const char **out) {
    if (s->st_name >= m->names_size)
        return damaged("symbol name");
    *out = m->names + s->st_name; /* ends: the table's last byte is 0 */
    return JIT_OK;
}

/** Address of a symbol that a section of the image defines. */
static jit_status defined_address(const image *m, const Elf64_Sym *s, uint8_t **out) {
    if (s->st_shndx >= m->section_count || m->offsets[s->st_shndx] == SKIPPED ||
        s->st_value > m->sections[s->st_shndx].sh_size)
        return damaged("symbol outside of the image");
    *out = m->base + m->offsets[s->st_shndx] + s->st_value;
    return JIT_OK;
}

static jit_status symbol_address(const image *m, const Elf64_Sym *s, uint8_t **out) {
    const char *name = "";
    if (s->st_shndx != SHN_UNDEF)
        return defined_address(m, s, out);
    TRY(symbol_name(m, s, &name));
    *out = m->resolver->find(m->resolver->context, name);
    if (!*out)
        return jitc_fail(JIT_COMPILE_FAILED, "llvm: kernels cannot call '%.80s'", name);
    return JIT_OK;
}

/** The slot of symbol `i`, filled. */
static uint8_t *fill_slot(image *m, size_t i, const uint8_t *address) {
    static const uint8_t jump[] = {0xff, 0x25, 0xf2, 0xff, 0xff, 0xff}; /* jmp *-14(%rip) */
    uint8_t *slot = m->base + m->slots + SLOT * i;
    memcpy(slot, &address, sizeof address);
    memcpy(slot + JUMP, jump, sizeof jump);
    return slot;
}

static jit_status write_relative(uint8_t *place, const uint8_t *to, int64_t addend) {
    int64_t distance = (int64_t) ((intptr_t) to - (intptr_t) place);
    int32_t value;
    if (addend > INT32_MAX || addend < INT32_MIN || distance > MAX_IMAGE || distance < -MAX_IMAGE)
        return damaged("relocation out of reach");
    if (distance + addend > INT32_MAX || distance + addend < INT32_MIN)
        return damaged("relocation out of reach");
    value = (int32_t) (distance + addend);
    memcpy(place, &value, sizeof value);
    return JIT_OK;
}

static jit_status write_absolute(uint8_t *place, const uint8_t *to, int64_t addend) {
    uint64_t value = (uint64_t) (uintptr_t) to + (uint64_t) addend;
    memcpy(place, &value, sizeof value);
    return JIT_OK;
}

static jit_status relocate(image *m, const Elf64_Shdr *target, uint8_t *start,
                           const Elf64_Rela *r) {
    size_t index = ELF64_R_SYM(r->r_info);
    unsigned type = (unsigned) ELF64_R_TYPE(r->r_info);
    size_t width = type == R_X86_64_64 ? 8 : 4;
    if (index >= m->symbol_count || r->r_offset > target->sh_size ||
        target->sh_size - r->r_offset < width)
        return damaged("relocation outside of its section");
    const Elf64_Sym *s = &m->symbols[index];
    uint8_t *place = start + r->r_offset, *address;
    TRY(symbol_address(m, s, &address));
    switch (type) {
        case R_X86_64_64: return write_absolute(place, address, r->r_addend);
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
            if (s->st_shndx == SHN_UNDEF)
                address = fill_slot(m, index, address) + JUMP;
            return write_relative(place, address, r->r_addend);
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX:
            return write_relative(place, fill_slot(m, index, address), r->r_addend);
        default: return jitc_fail(JIT_COMPILE_FAILED, "llvm: relocation of unknown type %u", type);
    }
}

static jit_status relocate_section(image *m, const Elf64_Shdr *s) {
    if (s->sh_info >= m->section_count)
        return damaged("relocations of no section");
    if (m->offsets[s->sh_info] == SKIPPED)
        return JIT_OK;
    if (s->sh_offset % 8 != 0 || !in_file(m, s->sh_offset, s->sh_size))
        return damaged("relocations outside of the file");
    const Elf64_Shdr *target = &m->sections[s->sh_info];
    const Elf64_Rela *all = (const void *) (m->file + s->sh_offset);
    for (size_t i = 0; i < s->sh_size / sizeof *all; i++)
        TRY(relocate(m, target, m->base + m->offsets[s->sh_info], &all[i]));
    return JIT_OK;
}

static jit_status relocate_all(image *m) {
    for (size_t i = 0; i < m->section_count; i++)
        if (m->sections[i].sh_type == SHT_RELA)
            TRY(relocate_section(m, &m->sections[i]));
    return JIT_OK;
}

static jit_status find_entry(const image *m, const char *entry, void **out) {
    for (size_t i = 0; i < m->symbol_count; i++) {
        const Elf64_Sym *s = &m->symbols[i];
        const char *name = "";
        uint8_t *address;
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC)
            continue;
        TRY(symbol_name(m, s, &name));
        if (strcmp(name, entry) != 0)
            continue;
        TRY(defined_address(m, s, &address));
        if (!(m->sections[s->st_shndx].sh_flags & SHF_EXECINSTR))
            return damaged("entry point is no code");
        *out = address;
        return JIT_OK;
    }
    return damaged("no entry point");
}

static jit_status build(image *m, const char *entry, jitc_code *out) {
    TRY(read_header(m));
    TRY(place_sections(m));
    TRY(map_image(m));
    TRY(relocate_all(m));
    TRY(find_entry(m, entry, &out->entry));
    if (mprotect(m->base, m->size, PROT_READ | PROT_EXEC) != 0)
        return jitc_fail(JIT_DEVICE_FAILED,
                         "llvm: the system does not allow to run generated code");
    return JIT_OK;
}

jit_status jitc_code_load(const jitc_blob *object, const char *entry, const jitc_resolver *resolver,
                          jitc_code *out) {
    image m = {.file = object->data, .file_size = object->size, .resolver = resolver};
    void *aligned = NULL;
    if ((uintptr_t) object->data % 8 != 0) { /* headers are read in place */
        TRY(jitc_calloc(1, object->size ? object->size : 1, &aligned));
        memcpy(aligned, object->data, object->size);
        m.file = aligned;
    }
    jit_status status = build(&m, entry, out);
    free(m.offsets);
    free(aligned);
    if (status != JIT_OK) {
        if (m.base)
            munmap(m.base, m.size);
        return status;
    }
    out->base = m.base;
    out->size = m.size;
    return JIT_OK;
}

void jitc_code_finish(jitc_code *c) {
    if (c && c->base)
        munmap(c->base, c->size);
}
