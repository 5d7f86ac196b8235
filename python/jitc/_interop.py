"""Arrays for other libraries: each function is the method of the same name."""
import importlib


class _Lent:
    """An array for from_dlpack() of another library, with some arguments of __dlpack__() set."""

    def __init__(self, array, device=None, **settings):
        self._array, self._device, self._settings = array, device, settings

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**{**arguments, **self._settings})

    def __dlpack_device__(self):
        return self._device or self._array.__dlpack_device__()


class _LentOrCopied(_Lent):
    """For libraries that know only the struct without a version: it cannot say that memory is
    read-only, and what was imported so is refused. They get a copy."""

    def __dlpack__(self, **arguments):
        try:
            return super().__dlpack__(**arguments)
        except BufferError:
            self._settings["copy"] = True
            return super().__dlpack__(**arguments)


def _is_compact(a, transposed=False):
    """Do the elements lie side by side, in row-major order, or with its dimensions transposed?"""
    _, strides = a._layout()
    dimensions = [(stride, n) for stride, n in zip(strides, a.shape) if n != 1]
    if transposed:
        dimensions.sort(reverse=True)
    expected = 1
    for stride, n in reversed(dimensions):
        if stride != expected:
            return a.size == 0
        expected *= n
    return True


def _check_for_numpy(a):
    if a.dtype == "bfloat16":
        raise BufferError("NumPy has no bfloat16: jitc.cast(a, 'float32').numpy() has the same values; so has "
                          "a.torch(), a.jax() or a.tolist()")


def numpy(a):
    import numpy as np  # type: ignore[import-not-found]
    _check_for_numpy(a)
    if a.backend == "cuda":
        return np.from_dlpack(_Lent(a, device=(1, 0), dl_device=(1, 0)))
    return np.from_dlpack(a)


def _numpy_in_place(a):
    import numpy as np  # type: ignore[import-not-found]
    _check_for_numpy(a)
    try:
        return np.from_dlpack(_Lent(a, device=(1, 0), dl_device=(1, 0), copy=False))
    except BufferError as error:
        raise ValueError(str(error)) from error


def array(a, dtype, copy):
    result = _numpy_in_place(a) if copy is False else numpy(a)
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError(f"{result.dtype} cannot be {dtype} without a copy")
        return result.astype(dtype)
    return result.copy() if copy else result


def torch(a):
    module = importlib.import_module("torch.utils.dlpack")
    if any(stride < 0 for stride in a._layout()[1]):  # PyTorch has none
        a = _Lent(a, copy=True)
    return module.from_dlpack(a)


def jax(a):
    module = importlib.import_module("jax.dlpack")
    compact = _is_compact(a, transposed=True)  # JAX refuses others
    return module.from_dlpack(_LentOrCopied(a) if compact else _Lent(a, copy=True))


def cupy(a):
    module = importlib.import_module("cupy")
    return module.from_dlpack(a) if a.backend == "cuda" else module.asarray(numpy(a))


def tf(a):
    module = importlib.import_module("tensorflow")
    # It refuses strides, and its operations abort on elements that are not aligned to 64 bytes.
    address, _ = a._layout()
    copy = None if address % 64 == 0 and _is_compact(a) else True
    stream = 0 if a.backend == "cuda" else None
    lent = _LentOrCopied(a, stream=stream, copy=copy)
    return module.experimental.dlpack.from_dlpack(lent.__dlpack__())
