"""The checks of this folder find each kind of offence in trees made here, and nothing in clean ones.

usage: selftest.py C_COMPILER
"""
import pathlib
import subprocess
import sys
import tempfile

COMPILER = sys.argv[1]
LINTS = pathlib.Path(__file__).parent
CLEAN = {
    "layers.txt": "core src/core\nir src/ir core\n",
    "src/core/a.h": "int jitc_low(void);\n",
    "src/core/a.c": '#include "core/a.h"\n#include <stdio.h>\nint jitc_low(void) {\n    return 1;\n}\n',
    "src/ir/b.h": "int jitc_high(void);\n",
    "src/ir/b.c": '#include "core/a.h"\n#include "ir/b.h"\nint jitc_high(void) {\n    return jitc_low();\n}\n',
}


def lint(script, changes):
    """Exit status and output of a check for the clean tree with `changes` made to it."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**CLEAN, **changes}.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if script == "layers.py":
            for file in root.rglob("*.c"):
                target = root / f"CMakeFiles/jitc_{file.parent.name}.dir/{file.name}.o"
                target.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([COMPILER, "-I", root / "src", "-c", file, "-o", target], check=True)
        arguments = [root, root] if script == "layers.py" else [root]
        run = subprocess.run([sys.executable, LINTS / script, *arguments], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


LONG = "void jitc_long(void) {\n" + "    ;\n" * 69 + "}\n"
CASES = [  # check, what is changed in the clean tree, what it has to say; None: nothing
    ("layers.py", {}, None),
    ("layers.py", {"src/core/a.h": '#include "ir/b.h"\nint jitc_low(void);\n'}, 'must not write #include "ir/b.h"'),
    ("layers.py", {"src/ir/b.c": '#include "b.h"\n'}, "src/ir/b.c:1"),
    ("layers.py", {"src/ir/c.h": '#include "../core/a.h"\n'}, "src/ir/c.h:1"),
    ("layers.py", {"src/ir/c.h": '#include "other/c.h"\n'}, "src/ir/c.h:1"),
    ("layers.py", {"src/core/a.c": "int jitc_high(void);\nint jitc_low(void) { return jitc_high(); }\n"},
     "layer 'core' uses jitc_high, which lives in layer 'ir'"),
    ("layers.py", {"layers.txt": "core src/core ir\nir src/ir core\n"}, "not declared before"),
    ("size.py", {}, None),
    ("size.py", {"src/core/c.c": LONG}, "src/core/c.c:1: 71 lines"),
    ("size.py", {"src/core/c.c": LONG.replace("    ;\n", "", 1)}, None),
    ("size.py", {"src/core/c.c": LONG.replace("    ;\n", "done:\n", 1)}, "src/core/c.c:1: 71 lines"),
    ("size.py", {"src/core/c.h": "int a;\n" * 601}, "src/core/c.h: 601 lines"),
    ("text.py", {}, None),
    ("text.py", {"src/core/c.h": "#ifdef JITC_CUDA\n"}, "src/core/c.h:1: backends are left out"),
    ("text.py", {"src/core/c.h": "int a; \n"}, "src/core/c.h:1: white space"),
    ("text.py", {"src/core/c.c": "  exit(1);\n"}, "src/core/c.c:1: library code"),
    ("text.py", {"README.md": "see /ho" + "me/me/notes\n"}, "README.md:1: a path"),
    ("text.py", {"src/core/c.h": "/* TO" + "DO later */\n"}, "src/core/c.h:1: a work list entry"),
]

failed = 0
for script, changes, text in CASES:
    status, output = lint(script, changes)
    if status != (text is not None) or (text or "") not in output:
        failed += 1
        print(f"{script} with {changes}: exit status {status}, wanted '{text}', said:\n{output}")
print(f"{len(CASES) - failed} passed, {failed} failed")
sys.exit(bool(failed))
