"""What backends/cuda/driver.h and driver.def declare is what a real cuda.h declares: constants,
layouts, and the parameters of every function; and the simulated driver's functions take these
parameters, too. Exit status 77 (skipped) where no cuda.h is found.

usage: cuda_header.py SOURCE_DIR C_COMPILER [INCLUDE_DIR]

Looked for in INCLUDE_DIR, $JITC_CUDA_INCLUDE_DIR, $CUDA_PATH/include, /usr/local/cuda/include, where
tools/setup.sh puts it, and where pip puts it.
"""
import glob
import os
import pathlib
import re
import site
import subprocess
import sys

OLDEST = 12000  # of the types under these names


def find_header(root, given):
    folders = [given, os.environ.get("JITC_CUDA_INCLUDE_DIR", "")]
    if "CUDA_PATH" in os.environ:
        folders.append(os.environ["CUDA_PATH"] + "/include")
    folders.append("/usr/local/cuda/include")
    for packages in [root / "build/nvidia", *site.getsitepackages(), site.getusersitepackages()]:
        folders += sorted(glob.glob(f"{packages}/nvidia/*/include"), reverse=True)
    for folder in folders:
        header = pathlib.Path(folder, "cuda.h") if folder else None
        if header and header.is_file():
            version = int(re.search(r"#define CUDA_VERSION (\d+)", header.read_text())[1])
            if version >= OLDEST:
                return folder, version
    return None, 0


def parameters(text):
    """The types of a parameter list, without the names."""
    types = []
    for parameter in text.strip().split(","):
        parameter = re.sub(r"\b__\w+__\b", "", parameter).strip()
        if parameter != "void":
            types.append(re.sub(r"(?<=[\s*])\w+$", "", parameter).strip() or parameter)
    return types


class Check:
    def __init__(self, root, compiler, folder):
        self.header = (root / "backends/cuda/driver.h").read_text()
        self.rows = re.findall(r"^(DRIVER|OPTIONAL)\(\w+,\s*\"(\w+)\",\s*\(([^()]*)\)\)$",
                               (root / "backends/cuda/driver.def").read_text(), re.M)
        self.rows += re.findall(r"^(ENTRY|STREAM|COPY)\s*\((\w+),[\s\w,]*,\s*\(([^()]*)\)",
                                (root / "tests/simcuda/driver_api.def").read_text(), re.M)
        self.root, self.compiler, self.folder, self.bad = root, compiler, folder, []
        pointers = re.findall(r"#\s*define (CU\w+)\s+\(\(void \*\) (\w+)\)", self.header)
        assert len(pointers) == 3
        names = "".join(f"pointer_{name} {name}\n" for name, _ in pointers)
        run = self.compile("#include <cuda.h>\n" + names, "-E", "-P")
        for name, value in pointers:
            real = re.search(rf"pointer_{name}\s*\(\(void\s*\*\)\s*(\w+)\)", run.stdout)
            if not real or int(real[1], 0) != int(value, 0):
                self.bad.append(f"{name} differs")
        self.pointers = [name for name, _ in pointers]
        self.real = dict(re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;", run.stdout))

    def compile(self, text, *flags):
        command = [self.compiler, "-xc", "-std=c17", *flags, "-isystem", self.folder]
        command += [f"-I{self.root}/{f}" for f in ("include", "src", "backends")]
        return subprocess.run([*command, "-"], input=text, capture_output=True, text=True)

    def write(self):
        """A C file that compiles if both agree. Our names get the prefix OUR_."""
        without = re.sub(r"/\*.*?\*/", "", self.header, flags=re.S)
        constants = re.findall(r"^\s*(CU\w+) = ", without, re.M)
        constants += [c for line in re.findall(r"^enum \{ (.*) \};", without, re.M)
                      for c in re.findall(r"(CU\w+) = ", line)]
        types = re.findall(r"^typedef [^;{]*?(CU\w+);", without, re.M)
        structs = re.findall(r"^typedef struct \w+ \{(.*?)\} (CU\w+);", without, re.M | re.S)
        assert len(constants) > 40 and len(types) > 10 and structs
        assert len(self.rows) > 100
        lines = ["#include <cuda.h>", "#include <stddef.h>"]
        lines += [f"enum {{ REAL_{c} = (int) {c} }};" for c in constants]
        lines += [f"#undef {p}" for p in self.pointers]
        lines += [f"typedef {t} REAL_{t};" for t in types + [s[1] for s in structs]]
        lines += [f"#define {n} OUR_{n}" for n in constants + types]
        lines += [f"#define {s[1]} OUR_{s[1]}" for s in structs]
        lines += ['#include "cuda/driver.h"']
        lines += [self.same(c, f"REAL_{c} == (int) {c}") for c in constants]
        lines += [self.same(t, f"sizeof(REAL_{t}) == sizeof({t})") for t in types]
        for body, name in structs:
            lines.append(self.same(name, f"sizeof(REAL_{name}) == sizeof({name})"))
            fields = [f.strip(" *") for line in body.split(";") for f in
                      re.sub(r"^\s*\w+\s", "", line).split(",") if f.strip()]
            fields = [f for f in fields if not f.startswith("reserved")]  # shrinks as fields are added
            lines += [self.same(f"{name}.{f}", f"offsetof(REAL_{name}, {f}) == offsetof({name}, {f})")
                      for f in fields]
        lines += [line for row in self.rows for line in self.function(*row)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def same(what, condition):
        return f'_Static_assert({condition}, "{what} differs");'

    def function(self, kind, symbol, ours):
        """Each parameter has the size and kind of the real one, and points to what has its size."""
        if symbol not in self.real:
            if kind == "DRIVER":
                self.bad.append(f"{symbol}: cuda.h does not declare it")
            return
        ours, real = parameters(ours), parameters(self.real[symbol])
        if len(ours) != len(real):
            self.bad.append(f"{symbol}: {len(ours)} parameters; cuda.h has {len(real)}: {real}")
            return
        for n, (a, b) in enumerate(zip(ours, real), 1):
            what = f"parameter {n} of {symbol}"
            b = re.sub(r"\bCU\w+", r"REAL_\g<0>", b) if self.is_renamed(b) else b
            yield self.same(what, f"sizeof({a}) == sizeof({b})")
            yield self.same(what, f"__builtin_classify_type(({a}) 0) == __builtin_classify_type(({b}) 0)")
            if a.endswith("*") and b.endswith("*") and a != "void *":
                yield self.same(what, f"sizeof(*({a}) 0) == sizeof(*({b}) 0)")

    def is_renamed(self, text):
        names = re.findall(r"\bCU\w+", text)
        return bool(names) and re.search(rf"\b{names[0]}\b", self.header)


def main():
    root = pathlib.Path(sys.argv[1])
    folder, version = find_header(root, sys.argv[3] if len(sys.argv) > 3 else "")
    if not folder:
        print("no cuda.h found: tools/setup.sh all, or set JITC_CUDA_INCLUDE_DIR")
        sys.exit(77)
    check = Check(root, sys.argv[2], folder)
    run = check.compile(check.write(), "-fsyntax-only", "-D_GNU_SOURCE")
    bad = check.bad + [line for line in run.stderr.splitlines() if "error" in line]
    print("\n".join(bad) or f"as in cuda.h {version} of {folder}")
    sys.exit(bool(bad or run.returncode))


main()
