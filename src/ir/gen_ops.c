/* gen_ops.c: host tool that prints what is made from tables: from ops.def `gen_ops header` makes
 * include/jit/ops.h and `gen_ops manual` docs/operations.md; from options.def `gen_ops options`
 * makes docs/options.md. All are committed; a test compares.
 * Layer: ir.  May include: core. */
#include "ir/ir.h"
#include <stdio.h>
#include <string.h>

static const char *domain_text(const jitc_op_info *o) {
    switch (o->domain) {
        case JITC_DOMAIN_REAL: return "floats";
        case JITC_DOMAIN_INTEGER: return "integers";
        case JITC_DOMAIN_BITS: return "integers, bool";
        case JITC_DOMAIN_ARITH: return "integers, floats";
        default: return "all types";
    }
}
/** What the generated function takes; "" for forms that have functions of their own in jit.h, or
 * none. */
static const char *parameter_text(const jitc_op_info *o) {
    switch (o->form) {
        case JITC_FORM_UNARY: return "jit_var a";
        case JITC_FORM_BINARY: return "jit_var a, jit_var b";
        case JITC_FORM_TERNARY: return "jit_var a, jit_var b, jit_var c";
        case JITC_FORM_SELECT: return "jit_var mask, jit_var a, jit_var b";
        default: return "";
    }
}

/* The header. */

/** Print words after a column of `used` characters; lines end before `width` and go on as a
 * comment. */
static void print_wrapped(const char *text, size_t used, size_t width) {
    while (*text) {
        size_t word = strcspn(text, " ");
        if (used + 1 + word > width) {
            printf("\n *");
            used = 2;
        }
        printf(" %.*s", (int) word, text);
        used += 1 + word;
        text += word + strspn(text + word, " ");
    }
}

static void print_prototype(const jitc_op_info *o) {
    char text[512];
    const char *bound = o->props & JITC_INEXACT ? " Not exact: within 1 ULP." : "";
    const char *result = o->result == JITC_RESULT_BOOL ? " to bool" : "";
    snprintf(text, sizeof text, "%s%s (%s%s) */", o->summary, bound, domain_text(o), result);
    printf("\n/**");
    print_wrapped(text, 3, 100);
    printf("\nJIT_API jit_var jit_%s(%s);\n", o->name, parameter_text(o));
}

static const char header_start[] =
    "/* ops.h: the operations on variables. Made from src/ir/ops.def by gen_ops: do not edit.\n"
    " * Compiles alone as C17 and as C++17.\n"
    " *\n"
    " * For every function: it records one operation, element by element, and computes nothing\n"
    " * yet. The operands are borrowed; the result is a new reference, given back with\n"
    " * jit_unref() or by the open scope. Any thread may call it. The types that the operands\n"
    " * may have are named in parentheses; the result has the operands' type unless it says\n"
    " * otherwise.\n"
    " *\n"
    " * The operands have one type, one backend, one device, and one size, or size 1, which\n"
    " * stands for as many copies as the others have. Results are the same for literals and on\n"
    " * every backend, bit for bit, except where it says \"not exact\".\n"
    " *\n"
    " * On failure the result is 0, and the calling thread's jit_error() says why:\n"
    " * JIT_NOT_INITIALIZED, JIT_INVALID_HANDLE, JIT_TYPE_MISMATCH (operands of different types\n"
    " * or backends, or a type that the operation does not take), JIT_SIZE_MISMATCH,\n"
    " * JIT_OUT_OF_MEMORY. An operand 0 gives 0. */\n"
    "#ifndef JIT_OPS_H\n"
    "#define JIT_OPS_H\n"
    "#include <jit/base.h>\n"
    "\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n";

static void print_header(void) {
    fputs(header_start, stdout);
    for (int i = 0; i < JITC_OP_COUNT; ++i)
        if (*parameter_text(&jitc_ops[i]))
            print_prototype(&jitc_ops[i]);
    puts("\n#ifdef __cplusplus\n}\n#endif\n#endif");
}

/* The manual. */

/** Text in a table cell: "|" would end it. */
static void print_cell(const char *text) {
    for (; *text; ++text)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

static const char *call_text(const jitc_op_info *o) {
    switch (o->form) {
        case JITC_FORM_UNARY: return "(a)";
        case JITC_FORM_BINARY: return "(a, b)";
        case JITC_FORM_TERNARY: return "(a, b, c)";
        case JITC_FORM_SELECT: return "(mask, a, b)";
        case JITC_FORM_CAST: return "(a, type)";
        case JITC_FORM_GATHER: return "(source, index, mask)";
        case JITC_FORM_SCATTER:
            return o == &jitc_ops[JITC_OP_scatter] ? "(target, value, index, mask)"
                                                   : "(op, target, value, index, mask)";
        default: return "";
    }
}

static const char *result_text(const jitc_op_info *o) {
    switch (o->form) {
        case JITC_FORM_CAST: return "`type`";
        case JITC_FORM_GATHER: return "as source";
        case JITC_FORM_SCATTER: return "as target";
        default: return o->result == JITC_RESULT_BOOL ? "bool" : "as operands";
    }
}

static const char manual_start[] =
    "# Operations\n"
    "\n"
    "Generated from `src/ir/ops.def` by `gen_ops`: do not edit.\n"
    "\n"
    "Every operation means the same for literals and on every backend. *Exact* operations agree\n"
    "bit for bit, and those on floats are correctly rounded with subnormals kept: no fusing, no\n"
    "flush to zero, no reciprocal instead of a division. Which NaN comes out of an operation\n"
    "that computes one is not specified. Operations marked *1 ULP* are functions of which f32\n"
    "and f64 results lie within 1 unit in the last place of the true value, with the special\n"
    "cases of C's Annex F; f16 and bf16 compute in a wider type and round once.\n"
    "\n"
    "Operands have one type (there is no silent promotion) and one size; size 1 broadcasts.\n"
    "*Integers* are i8 to i64 and u8 to u64, *floats* f16, bf16, f32 and f64.\n"
    "\n"
    "| operation | types | result | exactness | meaning |\n"
    "|---|---|---|---|---|\n";

static void print_manual(void) {
    fputs(manual_start, stdout);
    for (int i = 0; i < JITC_OP_COUNT; ++i) {
        const jitc_op_info *o = &jitc_ops[i];
        if (!*call_text(o))
            continue;
        printf("| `jit_%s%s` | %s | %s | %s | ", o->name, call_text(o), domain_text(o),
               result_text(o), o->props & JITC_INEXACT ? "1 ULP" : "exact");
        print_cell(o->summary);
        puts(" |");
    }
}

static const char options_start[] =
    "# Options\n"
    "\n"
    "Generated from `src/core/options.def` by `gen_ops`: do not edit.\n"
    "\n"
    "Set an option by its name with `jit_set_option()`, or by an environment variable, which is\n"
    "read once, when the library is first used (and ignored in a set-user-ID program). Numbers\n"
    "may end in K, M or G (2^10, 2^20, 2^30); booleans are 0, 1, false, true, off or on.\n"
    "\n"
    "Set `num_threads`, `spin_us`, `llvm_isa`, `llvm_library`, `cuda_driver` and `cuda_nvrtc`\n"
    "before `jit_init()` starts the backend, and `cache_dir` and `cache_limit` before the first\n"
    "kernel is wanted: later they change nothing until the last `jit_shutdown()`. The others can\n"
    "be changed at any time.\n"
    "\n"
    "| option | environment | default | range | meaning |\n"
    "|---|---|---|---|---|\n";

static void print_range(int64_t least, int64_t greatest) {
    if (greatest == INT64_MAX)
        printf("%lld or more", (long long) least);
    else if (least != greatest)
        printf("%lld to %lld", (long long) least, (long long) greatest);
    fputs(" | ", stdout);
}

static void print_options(void) {
    fputs(options_start, stdout);
#define DEFAULT_BOOL(value) (value) ? "on" : "off"
#define DEFAULT_INT(value)  #value
#define DEFAULT_TEXT(value) *(value) ? (value) : "(empty)"
#define OPTION(name, kind, value, least, greatest, environment, text)                              \
    printf("| `%s` | `%s` | %s | ", #name, environment, DEFAULT_##kind(value));                    \
    print_range(least, greatest);                                                                  \
    print_cell(text);                                                                              \
    puts(" |");
#include "core/options.def"
#undef DEFAULT_BOOL
#undef DEFAULT_INT
#undef DEFAULT_TEXT
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "header") == 0)
        print_header();
    else if (argc == 2 && strcmp(argv[1], "manual") == 0)
        print_manual();
    else if (argc == 2 && strcmp(argv[1], "options") == 0)
        print_options();
    else {
        fprintf(stderr, "usage: gen_ops header|manual|options\n");
        return 2;
    }
    return 0;
}
