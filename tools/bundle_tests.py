"""Turns the list of tests of CTest into that of a bundle: bundle_tests.py BUILD <ctest.json >tests.

One test a line, its fields separated by tabs: name, backend (llvm, cuda or none), seconds, further
variables of the environment (or -), program, arguments. Only programs of the build are taken: what
reads the sources or compiles stays at home. Libraries of the build are @lib/NAME; files that a test
writes there go to the folder logs.
"""
import json
import pathlib
import sys

# What run.sh sets itself, or what is about the build.
OWN = {"JITC_CACHE_DIR", "ASAN_OPTIONS", "LSAN_OPTIONS", "JITC_TEST_BACKEND", "JITC_LIBCUDA", "JITC_LIBNVRTC"}


def line_of(test, build):
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    command = test.get("command", [""])
    program = pathlib.Path(command[0])
    if build not in program.parents:
        return None
    variables = dict(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
    backend = variables.get("JITC_TEST_BACKEND", "llvm" if "llvm" in properties.get("LABELS", []) else "none")
    further = []
    for name, value in variables.items():
        if build in pathlib.Path(value).parents and value.endswith(".so"):
            value = "@lib/" + pathlib.Path(value).name
        if name not in OWN and str(build) not in value:
            further.append(f"{name}={value}")
    arguments = [f"logs/{pathlib.Path(a).name}" if build in pathlib.Path(a).parents else a for a in command[1:]]
    seconds = str(int(properties.get("TIMEOUT", 300)))
    return "\t".join([test["name"], backend, seconds, " ".join(further) or "-", program.name, *arguments])


def main():
    build = pathlib.Path(sys.argv[1])
    lines = (line_of(test, build) for test in json.load(sys.stdin)["tests"])
    print("\n".join(sorted(line for line in lines if line)))


main()
