"""Reads tables of mutations: changes that take one synchronisation out of the library.

usage: mutate.py check SOURCE_DIR TABLE        does each change still apply, at one place?
       mutate.py list TABLE [WORD]             name, test, pattern of those whose name has WORD
       mutate.py apply SOURCE_DIR TABLE NAME   make the change; prints the file, which is kept as *.orig

A mutation is a paragraph of lines "key text"; lines that begin with # are comments:
    name     what is taken out, in words joined by hyphens
    file     in which file
    in       the change is behind the first place of this text (not needed where `from` is unique)
    from     this text, exactly ...
    to       ... becomes this; nothing, if it is left out
    test     test of CTest and pattern of its tests, suite/name, of which one must then fail
More than one `from` and `to` make one mutation of several changes. Texts of several lines have a
line `from` (or `to`) for each.
"""
import pathlib
import sys


def read(table):
    for paragraph in pathlib.Path(table).read_text().split("\n\n"):
        rows = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if rows:
            yield parse(rows)


def parse(rows):
    mutation, last = {"edits": []}, ""
    for row in rows:
        key, _, text = row.partition(" ")
        text = text.strip()
        if key == "from":
            if last == "from":
                mutation["edits"][-1]["from"].append(text)
            else:
                mutation["edits"].append({"in": mutation.pop("in", None), "from": [text], "to": []})
        elif key == "to":
            mutation["edits"][-1]["to"].append(text)
        elif key in ("name", "file", "in", "test"):
            mutation[key] = text
        else:
            sys.exit(f"unknown key '{key}' in: {rows[0]}")
        last = key
    return mutation


def place_of(lines, edit):
    """Index of the first line of `from`, of which each has to be part of a line."""
    start = 0
    if edit["in"]:
        found = [i for i, line in enumerate(lines) if edit["in"] in line]
        if not found:
            raise ValueError(f"'{edit['in']}' is not there")
        start = found[0]
    n = len(edit["from"])
    found = [i for i in range(start, len(lines) - n + 1)
             if all(text in lines[i + k] for k, text in enumerate(edit["from"]))]
    if not found or (len(found) > 1 and not edit["in"]):
        raise ValueError(f"'{edit['from'][0]}' is there {len(found)} times")
    return found[0]


def mutated(text, mutation):
    lines = text.split("\n")
    for edit in mutation["edits"]:
        at, first = place_of(lines, edit), edit["from"]
        if len(first) == 1:
            lines[at] = lines[at].replace(first[0], " ".join(edit["to"]), 1)
        else:
            lines[at:at + len(first)] = edit["to"]
    return "\n".join(lines)


def change(root, mutation):
    file = root / mutation["file"]
    before = file.read_text()
    after = mutated(before, mutation)
    if after == before:
        raise ValueError("nothing changes")
    return file, after


def check(root, table):
    bad, names = [], set()
    for m in read(table):
        try:
            if m["name"] in names:
                raise ValueError("the name is there twice")
            names.add(m["name"])
            if not m["edits"] or len(m["test"].split()) != 2:
                raise ValueError("no edit, or no test and pattern")
            change(root, m)
        except (ValueError, KeyError, OSError) as e:
            bad.append(f"{m.get('name')}: {m.get('file')}: {e}")
    print("\n".join(bad) or f"{len(names)} mutations apply")
    return bool(bad)


def main():
    command, *rest = sys.argv[1:]
    if command == "check":
        sys.exit(check(pathlib.Path(rest[0]), rest[1]))
    if command == "list":
        for m in read(rest[0]):
            if len(rest) < 2 or rest[1] in m["name"]:
                print(m["name"], m["test"])
        return
    for m in read(rest[1]):
        if m["name"] == rest[2]:
            file, after = change(pathlib.Path(rest[0]), m)
            file.with_name(file.name + ".orig").write_text(file.read_text())
            file.write_text(after)
            print(m["file"])
            return
    sys.exit(f"there is no mutation '{rest[2]}'")


main()
