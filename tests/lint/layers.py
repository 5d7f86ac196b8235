"""A layer includes and calls only itself and the layers that its jitc_layer(... USES ...) names.

usage: layers.py SOURCE_DIR BUILD_DIR    (BUILD_DIR/layers.txt: "name folder used-layer...")
"""
import collections
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+"(?:([^"/]+)/)?')
SOURCES = {".c", ".h", ".def"}
DEFINED = set("TDBRVWC")  # nm's letters for symbols that others can see


def read_layers(path):
    """name -> (folder, the layers that it may use, itself among them)"""
    layers = {}
    for line in path.read_text().splitlines():
        name, folder, *uses = line.split()
        for use in uses:
            if use not in layers:
                sys.exit(f"layer '{name}' uses '{use}', which is not declared before it")
        layers[name] = (folder, {name, *uses})
    return layers


def bad_includes(root, layers):
    """Quoted includes that name no layer, or one that is not allowed. System headers use <>."""
    for name, (folder, allowed) in layers.items():
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if found and found[1] not in allowed:
                    yield f"{file.relative_to(root)}:{number}: layer '{name}' must not write {line.strip()}"


def symbols(build, name):
    """(letter, symbol) of every object of a layer."""
    objects = sorted((build / f"CMakeFiles/jitc_{name}.dir").rglob("*.o"))
    if not objects:
        sys.exit(f"layer '{name}' has no objects in {build}: build first")
    run = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        if line and not line.endswith(":"):  # the name of the file that comes
            yield tuple(line.split()[-2:])


def bad_calls(build, layers):
    """Undefined symbols that a layer outside of USES defines: catches a prototype written by hand."""
    owner, needs = {}, collections.defaultdict(set)
    for name in layers:
        for kind, symbol in symbols(build, name):
            if kind in DEFINED:
                owner[symbol] = name
            elif kind == "U":
                needs[name].add(symbol)
    for name, wanted in needs.items():
        for symbol in sorted(wanted):
            if symbol in owner and owner[symbol] not in layers[name][1]:
                yield f"layer '{name}' uses {symbol}, which lives in layer '{owner[symbol]}'"


def main():
    root, build = map(pathlib.Path, sys.argv[1:])
    layers = read_layers(build / "layers.txt")
    bad = [*bad_includes(root, layers), *bad_calls(build, layers)]
    print("\n".join(bad) or f"{len(layers)} layers: the direction holds")
    sys.exit(bool(bad))


main()
