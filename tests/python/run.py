"""Builds the Python package with the library of a build folder, and runs its tests.

usage: run.py build BUILD_DIR        exit status 77 (skipped) if something is missing to build it
       run.py test BUILD_DIR FILE    the same if it was not built

The Python is that of $JITC_TEST_PYTHON, else of the folder build/python, which tools/setup.sh makes, else
the one that runs this. JITC_SANITIZE: the sanitizers of the build; CC, CFLAGS: its compiler, and options for the extension.
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANITIZE, CC = os.environ.get("JITC_SANITIZE", ""), os.environ.get("CC", "cc")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_python():
    given = os.environ.get("JITC_TEST_PYTHON")
    made = ROOT / "build/python/bin/python"
    return given or (str(made) if made.is_file() else sys.executable)


def run(*command, **environment):
    return subprocess.run([str(c) for c in command], env={**os.environ, **environment}).returncode


def what_is_missing(python):
    tell = ("import sysconfig, pathlib, sys; sys.version_info >= (3, 9) or sys.exit('it is older than 3.9');"
            "pathlib.Path(sysconfig.get_path('include'), 'Python.h').is_file() or sys.exit('it has no headers');"
            "import setuptools, wheel")
    told = subprocess.run([python, "-c", tell], capture_output=True, text=True)
    return f"{python}: {told.stderr.strip().splitlines()[-1]}" if told.returncode else None


def build(binary, folder):
    python = find_python()
    missing = what_is_missing(python)
    for name in ("package", "temp"):  # not what CMake has there
        shutil.rmtree(folder / name, ignore_errors=True)
    if missing:
        skip(f"{missing}; sh tools/setup.sh all")
    (folder / "package").mkdir(parents=True)
    failed = run(CC, "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-o", folder / "package/helpers.so",
                 ROOT / "tests/python/helpers.c")
    os.chdir(ROOT / "python")
    return failed or run(python, "-W", "ignore", "setup.py", "--quiet", "build", "--build-base", folder / "temp",
                         "--build-lib", folder / "package", "egg_info", "--egg-base", folder,
                         JITC_LIBRARY_DIR=str(binary), CFLAGS="", JITC_PYTHON_CFLAGS=os.environ.get("CFLAGS", ""))


def sanitizer_settings():
    """A sanitized library in a program that is not wants its runtime loaded first."""
    if "thread" in SANITIZE:
        skip("a Python without ThreadSanitizer cannot load a library with it")
    if "address" not in SANITIZE:
        return {}
    name = subprocess.run([CC, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(name):
        skip(f"{CC} has no libasan.so")
    # The interpreter's own leaks at exit are many; ours are counted by the tests.
    return {"LD_PRELOAD": name, "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")}


def test(folder, file):
    python = find_python()
    if not (folder / "package/jitc/_jitc.abi3.so").is_file():
        skip("the package was not built: see the test python.build")
    return run(python, "-X", "faulthandler", ROOT / "tests/python" / file, PYTHONPATH=str(folder / "package"),
               PYTHONDONTWRITEBYTECODE="1", **sanitizer_settings())


def main():
    binary = pathlib.Path(sys.argv[2]).absolute()
    folder = binary / "tests/python"
    sys.exit(build(binary, folder) if sys.argv[1] == "build" else test(folder, sys.argv[3]))


main()
