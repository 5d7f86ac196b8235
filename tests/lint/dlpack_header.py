"""What src/export/dlpack_abi.h declares is what a real dlpack.h declares: constants and layouts. Exit
status 77 (skipped) where no dlpack.h is found.

usage: dlpack_header.py SOURCE_DIR C_COMPILER [INCLUDE_DIR]

Looked for in INCLUDE_DIR, $JITC_DLPACK_INCLUDE_DIR, where tools/setup.sh puts it, and where pip puts it (in
apache-tvm-ffi, which brings the real one).
"""
import os
import pathlib
import re
import site
import subprocess
import sys

ABI = "src/export/dlpack_abi.h"


def find_header(root, given=""):
    folders = [folder for folder in (given, os.environ.get("JITC_DLPACK_INCLUDE_DIR", "")) if folder]
    for packages in [root / "build/dlpack", *site.getsitepackages(), site.getusersitepackages()]:
        folders.append(f"{packages}/tvm_ffi/include")
    for folder in folders:
        header = pathlib.Path(folder, "dlpack/dlpack.h")
        if header.is_file():
            return header
    return None


def version(text):
    return tuple(int(re.search(rf"#define DLPACK_{part}_VERSION\s+(\d+)", text)[1]) for part in ("MAJOR", "MINOR"))


def write(ours, header):
    """A C file that compiles if both agree. Our names get the prefix OUR_."""
    text = re.sub(r"/\*.*?\*/", "", ours, flags=re.S)
    flags = re.findall(r"^#define (DLPACK_FLAG_\w+)", text, re.M)
    constants = re.findall(r"^\s*(kDL\w+) = ", text, re.M)
    structs = re.findall(r"^typedef struct \w+ \{(.*?)^\} (\w+);", text, re.M | re.S)
    enums = re.findall(r"^typedef enum (\w+)", text, re.M)
    assert len(flags) >= 2 and len(constants) > 20 and len(structs) == 8 and len(enums) == 2
    lines = [f'#include "{header}"', "#include <stddef.h>"]
    lines += [f"enum {{ REAL_{c} = (int) {c} }};" for c in flags + constants]
    lines += [f"typedef {name} REAL_{name};" for name in enums + [s[1] for s in structs]]
    lines += [f"#undef {f}" for f in flags]
    lines += ["#undef DLPACK_DLPACK_H_", "#undef DLPACK_MAJOR_VERSION", "#undef DLPACK_MINOR_VERSION"]
    lines += [f"#define {n} OUR_{n}" for n in constants + enums + [s[1] for s in structs]]
    lines += [f'#include "{ABI.removeprefix("src/")}"']
    lines += [same(c, f"REAL_{c} == (int) {c}") for c in flags + constants]
    lines += [same(e, f"sizeof(REAL_{e}) == sizeof({e})") for e in enums]
    for body, name in structs:
        lines.append(same(name, f"sizeof(REAL_{name}) == sizeof({name})"))
        for field in fields(body):
            what = f"{name}.{field}"
            lines.append(same(what, f"offsetof(REAL_{name}, {field}) == offsetof({name}, {field})"))
            a, b = f"((REAL_{name} *) 0)->{field}", f"(({name} *) 0)->{field}"
            lines.append(same(what, f"sizeof({a}) == sizeof({b})"))
            lines.append(same(what, f"__builtin_classify_type({a}) == __builtin_classify_type({b})"))
    return "\n".join(lines) + "\n"


def fields(body):
    for declaration in body.split(";"):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            yield pointer[1]
        elif declaration.strip():
            yield from (re.search(r"(\w+)$", part.strip())[1] for part in declaration.split(","))


def same(what, condition):
    return f'_Static_assert({condition}, "{what} differs");'


def main():
    root = pathlib.Path(sys.argv[1])
    header = find_header(root, sys.argv[3] if len(sys.argv) > 3 else "")
    if not header:
        print("no dlpack.h found: tools/setup.sh all, or set JITC_DLPACK_INCLUDE_DIR")
        sys.exit(77)
    ours, real = (root / ABI).read_text(), header.read_text()
    bad = []
    if version(ours)[0] != version(real)[0] or version(ours) > version(real):
        bad.append(f"{ABI} says version {version(ours)}, {header} {version(real)}")
    command = [sys.argv[2], "-xc", "-std=c17", "-fsyntax-only", f"-I{root}/src", "-"]
    run = subprocess.run(command, input=write(ours, header), capture_output=True, text=True)
    bad += [line for line in run.stderr.splitlines() if "error" in line]
    print("\n".join(bad) or f"as in {header}, {version(real)}")
    sys.exit(bool(bad or run.returncode))


if __name__ == "__main__":
    main()
