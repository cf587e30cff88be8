"""libprimeknet from Python."""
import ctypes
import numpy as np

lib = ctypes.CDLL('libprimeknet.so.0')
lib.primeknet_open.restype = ctypes.c_void_p
lib.primeknet_control.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_float, ctypes.c_float, ctypes.c_float]

def enhance(x, model='base', engine='auto', low_cut_hz=70):
    """x: float32 array [channels][samples] at 48 kHz. Returns the same, enhanced and aligned."""
    error = ctypes.create_string_buffer(512)
    handle = ctypes.c_void_p(lib.primeknet_open(model.encode(), engine.encode(), len(x), 1, error))
    if not handle:
        raise RuntimeError(error.value.decode())
    delay = lib.primeknet_delay(handle)
    y = np.ascontiguousarray(np.pad(x, ((0, 0), (0, delay))), dtype=np.float32)
    for stream in range(len(x)):
        lib.primeknet_control(handle, stream, 1, -np.inf, low_cut_hz)
    rows = (ctypes.c_void_p * len(y))(*(row.ctypes.data for row in y))
    code = lib.primeknet_process(handle, rows, rows, ctypes.c_size_t(y.shape[1]))
    lib.primeknet_close(handle)
    if code < 0:
        raise OSError(-code, 'the engine failed')
    return y[:, delay:]
