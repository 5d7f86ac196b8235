"""Values of Python as arrays, and back."""
import struct

from . import _jitc

_FORMATS = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
            "uint32": "I", "int64": "q", "uint64": "Q", "float16": "e", "float32": "f",
            "float64": "d"}
_DTYPES = {**{letter: name for name, letter in _FORMATS.items()}, "l": "int64", "L": "uint64",
           "c": "uint8"}


def array(obj, dtype=None, *, device=None):
    """A new array of a number, of lists in lists, of a buffer (bytes, array.array, memoryview), or a
    copy of an array that speaks DLPack.

    dtype None: that of the buffer or array; bool, int64 or float32 for bool, int and float.
    device: 'cpu', 'cuda', 'cuda:1'; None: that of set_device(), or of the array.
    """
    if hasattr(obj, "__dlpack__"):
        result = _jitc.from_dlpack(obj, device=device, copy=True)
    else:
        view = _view(obj)
        if view is None:
            return _from_numbers(obj, dtype, device)
        result = _from_view(view, device)
    return result if dtype is None else _jitc.cast(result, dtype)


def full(shape, value, dtype=None, *, device=None):
    """An array of one value, which takes no memory until somebody wants some."""
    return _jitc._full(shape, value, dtype or _common_dtype([value]), device)


def zeros(shape, dtype="float32", *, device=None):
    """An array of zeros."""
    return _jitc._full(shape, False, dtype, device)


def ones(shape, dtype="float32", *, device=None):
    """An array of ones."""
    return _jitc._full(shape, True, dtype, device)


def arange(start, stop=None, step=1, dtype=None, *, device=None):
    """start, start + step, ... before stop; with one argument: 0, 1, ... before it."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): the step is 0")
    dtype = dtype or _common_dtype([start, stop, step])
    size = max(0, -int((start - stop) // step))
    return _jitc.cast(_jitc._counter(size, device), dtype) * step + start


def _view(obj):
    try:
        return memoryview(obj)
    except TypeError:
        return None


def _from_view(view, device):
    code = view.format[1:] if view.format[:1] in ("@", "=", "<") else view.format
    dtype = _DTYPES.get(code)
    if dtype is None or struct.calcsize("=" + _FORMATS[dtype]) != view.itemsize:
        raise BufferError(f"jitc has no element type for the buffer's format {view.format!r}")
    return _jitc._from_bytes(view.tobytes(), view.shape, dtype, device)


def _flatten(obj, depth, shape, numbers):
    """Append the numbers of lists in lists; the first list of a depth tells the length of all."""
    if not isinstance(obj, (list, tuple)):
        if depth < len(shape):
            raise ValueError("array(): lists of different depths")
        numbers.append(obj)
        return
    if depth == len(shape) and not numbers:
        shape.append(len(obj))
    if depth >= len(shape) or len(obj) != shape[depth]:
        raise ValueError("array(): lists of different lengths or depths")
    for item in obj:
        _flatten(item, depth + 1, shape, numbers)


def _common_dtype(numbers):
    """bool, int64 or float32: the least that stands for all."""
    kinds = {bool if isinstance(n, bool) else int if hasattr(n, "__index__") else float
             for n in numbers}
    if bool in kinds and len(kinds) > 1:
        raise TypeError("bool and other numbers side by side: give a dtype")
    return "bool" if kinds == {bool} else "int64" if kinds == {int} else "float32"


def _from_numbers(obj, dtype, device):
    shape, numbers = [], []
    _flatten(obj, 0, shape, numbers)
    dtype = _jitc._dtype_name(dtype) if dtype else _common_dtype(numbers)
    if not shape:
        return _jitc._full((), numbers[0], dtype, device)
    # struct checks that the numbers fit. It lacks bfloat16, which is rounded from float64.
    packed = dtype if dtype in _FORMATS else "float64"
    try:
        data = struct.pack(f"={len(numbers)}{_FORMATS[packed]}", *numbers)
    except struct.error as error:
        raise TypeError(f"array(): not every element is a number of {dtype}: {error}") from None
    result = _jitc._from_bytes(data, shape, packed, device)
    return result if packed == dtype else _jitc.cast(result, dtype)


def _nested(values, shape):
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    step = len(values) // shape[0] if shape[0] else 0
    return [_nested(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def tolist(a):
    """Array.tolist()."""
    if not a._format:  # bfloat16
        return tolist(_jitc.cast(a, "float32"))
    return _nested(struct.unpack(f"={a.size}{a._format}", a._bytes()), a.shape)


def item(a):
    """Array.item()."""
    if a.size != 1:
        raise ValueError(f"an array of {a.size} elements is not one value")
    return tolist(a.reshape(()))


def text(a):
    """repr() of an array: with its values if they are few."""
    what = f"dtype={a.dtype!r}, device={a.device!r}"
    if a.size > 32:
        return f"jitc.Array(shape={a.shape}, {what})"
    shape = f"shape={a.shape}, " if 0 in a.shape else ""
    return f"jitc.Array({tolist(a)}, {shape}{what})"
