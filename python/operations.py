"""What is made of jit/ops.h when the package is built: the table of operations, and their stubs."""
import keyword
import re

FUNCTION = re.compile(r"/\*\*(.*?)\*/\s*JIT_API jit_var jit_(\w+)\(([^)]*)\);", re.S)


def rows(header):
    """(name in C, name in Python, parameters, what it does) of each operation of the header."""
    for comment, name, parameters in FUNCTION.findall(header):
        doc = " ".join(line.strip(" *") for line in comment.splitlines()).strip()
        names = [p.split()[-1] for p in parameters.split(",")]
        yield name, name + "_" if keyword.iskeyword(name) else name, names, doc


def wrapped(text, width=90):
    line, lines = "", []
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join(lines + [line])


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def table(header):
    """operations.def: OPERATION(name, function, arity, masked, name in Python, doc)."""
    lines = ["/* Made of jit/ops.h by operations.py. */"]
    for name, python, names, doc in rows(header):
        text = f"{python}($module, {', '.join(names)}, /)\n--\n\n{wrapped(doc)}"
        masked = str(names[0] == "mask").lower()
        lines.append(f"OPERATION({name}, jit_{name}, {len(names)}, {masked}, {c_string(python)}, "
                     f"{c_string(text)})")
    if len(lines) < 2:
        raise ValueError("no operation was found in jit/ops.h")
    return "\n".join(lines) + "\n"


def stubs(header):
    """The functions, as Python declares them."""
    lines = []
    for _, python, names, doc in rows(header):
        types = ["Array" if len(names) == 1 else "_Operand"] * len(names)
        parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
        text = wrapped(doc, 88).replace("\n", "\n    ")
        lines.append(f'def {python}({parameters}, /) -> Array:\n    """{text}"""\n')
    return "\n".join(lines)
