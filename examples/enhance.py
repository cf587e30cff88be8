"""libprimeknet from Python."""
import ctypes
from ctypes import c_char_p, c_float, c_size_t, c_uint, c_void_p

import numpy as np

lib = ctypes.CDLL('libprimeknet.so.0')
lib.primeknet_get_voice.restype = c_float


class Options(ctypes.Structure):
    """struct primeknet_options"""
    _fields_ = [('size', c_size_t), ('engine', c_char_p), ('gpu', c_char_p), ('block', c_size_t),
                ('n_streams', c_uint), ('n_channels', c_uint)]


class Controls(ctypes.Structure):
    """struct primeknet_controls"""
    _fields_ = [('size', c_size_t), ('strength', c_float), ('floor_db', c_float), ('low_cut_hz', c_float),
                ('level_target', c_float)]


def open_model(model, **options):
    """A handle, for lib.primeknet_close."""
    handle, error = c_void_p(), ctypes.create_string_buffer(512)
    options = Options(ctypes.sizeof(Options), **options)
    if lib.primeknet_open(ctypes.byref(handle), model.encode(), ctypes.byref(options), error) < 0:
        raise RuntimeError(error.value.decode())
    return handle


def set_controls(handle, stream, strength=1, floor_db=-np.inf, low_cut_hz=70, level_target=0):
    controls = Controls(ctypes.sizeof(Controls), strength, floor_db, low_cut_hz, level_target)
    if lib.primeknet_set_controls(handle, stream, ctypes.byref(controls)) < 0:
        raise ValueError('a control is out of its range')


def process(handle, y):
    """Enhances y, float32 [channels][samples] and contiguous, in place. The result lags by the delay."""
    rows = (c_void_p * len(y))(*(row.ctypes.data for row in y))
    if (code := lib.primeknet_process(handle, rows, rows, c_size_t(y.shape[1]))) < 0:
        raise OSError(-code, 'the engine failed')


def enhance(x, model='base', engine='auto', **controls):
    """x: float32 array [channels][samples] at 48 kHz. Returns the same, enhanced and aligned. The network hears the
    first ten seconds beforehand, and knows the voice and the noise when it starts over."""
    handle = open_model(model, engine=engine.encode(), n_channels=len(x))
    delay = lib.primeknet_get_delay(handle)
    y = np.ascontiguousarray(np.pad(x, ((0, 0), (0, delay))), dtype=np.float32)
    for stream in range(len(x)):
        set_controls(handle, stream, **controls)
    try:
        process(handle, np.array(x[:, :10 * 48000], np.float32))
        for stream in range(len(x)):
            lib.primeknet_pause(handle, stream)
        process(handle, y)
    finally:
        lib.primeknet_close(handle)
    return y[:, delay:]
