"""DLPack's structs for ctypes: tensors made by hand for jitc to import, and those that jitc exports
looked at, field by field, and counted when they end."""

import ctypes
import threading
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

CPU, CUDA = 1, 2
READ_ONLY, IS_COPIED = 1, 2
VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"

# (code, bits) of jitc's types.
TYPES = {
    "bool": (6, 8), "int8": (0, 8), "uint8": (1, 8), "int16": (0, 16), "uint16": (1, 16),
    "int32": (0, 32), "uint32": (1, 32), "int64": (0, 64), "uint64": (1, 64),
    "float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32), "float64": (2, 64),
}

Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class Type(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", Type),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("dl_tensor", Tensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("dl_tensor", Tensor)]


def api(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


capsule_new = api("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
capsule_name = api("PyCapsule_GetName", c_char_p, ctypes.py_object)
capsule_pointer = api("PyCapsule_GetPointer", c_void_p, ctypes.py_object, c_char_p)
capsule_rename = api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, c_char_p)
USED = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}


def look(capsule):
    """The struct in a capsule that nobody has consumed."""
    name = capsule_name(capsule)
    kind = {VERSIONED: Versioned, LEGACY: Managed}[name]
    return kind.from_address(capsule_pointer(capsule, name))


def address(capsule):
    t = look(capsule).dl_tensor
    return (t.data or 0) + t.byte_offset


def consume(capsule):
    """The struct, which is the caller's from here on: to be ended by end()."""
    managed = look(capsule)
    capsule_rename(capsule, USED[capsule_name(capsule)])
    return managed


def end(managed):
    """The deleter, in this thread, without the GIL."""
    Deleter(managed.deleter)(ctypes.addressof(managed))


def end_in_bare_thread(managed):
    """The deleter, in a thread that Python has never heard of."""
    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, c_void_p(managed.deleter),
                               c_void_p(ctypes.addressof(managed))) == 0
    assert libc.pthread_join(thread, None) == 0


class Made:
    """A tensor of somebody else. `calls`: the threads in which its deleter was called."""

    everything = []  # callbacks must outlive their tensors

    def __init__(self, memory, shape, dtype="float32", strides="compact", legacy=False, version=(1, 3),
                 flags=0, device=(CPU, 0), byte_offset=0, deleter=True, lanes=1, ndim=None):
        code, bits = TYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
        self.calls = []
        self.memory = memory
        self.managed = managed = (Managed if legacy else Versioned)()
        self.name = LEGACY if legacy else VERSIONED
        t = managed.dl_tensor
        t.data = memory if isinstance(memory, int) or memory is None else memory.ctypes.data
        t.device.type, t.device.id = device
        t.ndim = len(shape) if ndim is None else ndim
        t.dtype.code, t.dtype.bits, t.dtype.lanes = code, bits, lanes
        if shape:
            t.shape = (c_int64 * len(shape))(*shape)
        if strides == "compact":
            strides, stride = [], 1
            for extent in reversed(shape):
                strides.insert(0, stride)
                stride *= extent
        if strides is not None and shape:
            t.strides = (c_int64 * len(shape))(*strides)
        t.byte_offset = byte_offset
        if not legacy:
            managed.major, managed.minor = version
            managed.flags = flags
        if deleter:
            self.callback = Deleter(lambda pointer: self.calls.append(threading.get_ident()))
            managed.deleter = ctypes.cast(self.callback, c_void_p)
        self.everything.append(self)

    def capsule(self):
        return capsule_new(ctypes.addressof(self.managed), self.name, None)

    def __dlpack__(self, **keywords):
        return self.capsule()

    def __dlpack_device__(self):
        device = self.managed.dl_tensor.device
        return device.type, device.id


class Counted:
    """An array of jitc of which each exported tensor is counted: `made`, and `ended`, the threads
    in which the deleters were called."""

    everything = []

    def __init__(self, array):
        self.array = array
        self.made = 0
        self.ended = []

    def __dlpack__(self, **keywords):
        capsule = self.array.__dlpack__(**keywords)
        managed = look(capsule)
        deleter = Deleter(managed.deleter)

        def ended(pointer):
            self.ended.append(threading.get_ident())
            deleter(pointer)

        callback = Deleter(ended)
        self.everything.append((self, callback))
        managed.deleter = ctypes.cast(callback, c_void_p)
        self.made += 1
        return capsule

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
