"""Runs tests with real libraries, which tools/interop.sh has installed.

usage: interop.py PACKAGE_DIR MODULE LIBRARY...     exit status 77 (skipped) if one is not there

PACKAGE_DIR has the package jitc. MODULE is a file beside this one. JITC_SANITIZE: the sanitizers of
the build; CC: its compiler.
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_python():
    return os.environ.get("JITC_INTEROP_PYTHON") or shutil.which("python3") or sys.executable


def folder_of_libraries(python):
    """As tools/interop.sh has it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    top = os.environ.get("JITC_INTEROP_DIR") or os.path.join(cache, "jitc-interop")
    tag = subprocess.run([python, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"],
                         check=True, capture_output=True, text=True).stdout.strip()
    return pathlib.Path(top) / tag


def sanitizer_settings():
    """A sanitized library in a program that is not wants its runtime loaded first."""
    sanitize, compiler = os.environ.get("JITC_SANITIZE", ""), os.environ.get("CC", "cc")
    if "thread" in sanitize:
        skip("a Python without ThreadSanitizer cannot load a library with it")
    if "address" not in sanitize:
        return {}
    names = [subprocess.run([compiler, f"-print-file-name={library}"], check=True, capture_output=True,
                            text=True).stdout.strip() for library in ("libasan.so", "libstdc++.so.6")]
    # Exceptions of C++ are caught by the sanitizer, which has to find the real function: libstdc++.
    # The interpreter's own leaks at exit are many; ours are counted by the tests.
    return {"LD_PRELOAD": ":".join(names), "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")}


def main():
    package, module, *libraries = sys.argv[1:]
    python = find_python()
    folder = folder_of_libraries(python)
    if not pathlib.Path(package, "jitc/_jitc.abi3.so").is_file():
        skip("the package was not built: see the test python.build")
    for library in libraries:
        if not (folder / library / "installed").is_file():
            skip(f"{library} is not installed in {folder}: sh tools/interop.sh")
    path = [package, *(str(folder / library) for library in libraries), str(HERE)]
    command = [python, "-X", "faulthandler", "-m", "unittest", module]
    sys.exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": ":".join(path),
                                          **sanitizer_settings()}).returncode)


main()
