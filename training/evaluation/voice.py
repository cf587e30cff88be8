"""How often libprimeknet's voice activity and silero-vad are wrong on judge.py's pairs of 48 kHz:
python3 -m training.evaluation.voice PAIRS [--model NAME] [--strength S] [--gain DB]

The truth is silero-vad on the clean recordings, in blocks of 32 ms, above a half. The library and silero-vad hear the
noisy ones, raised by DB. PRIMEKNET_MODELS and LD_LIBRARY_PATH say where the library is.
"""
import argparse
import csv
import ctypes
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import soundfile
import soxr

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples'))
from enhance import lib, open_model, set_controls

RATE, HOP, BLOCK = 48000, 256, 512
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
silero = onnxruntime.InferenceSession(
    os.path.join(importlib.util.find_spec('silero_vad').submodule_search_locations[0], 'data', 'silero_vad.onnx'),
    options)


def by_silero(x):
    """A probability per block of 32 ms."""
    x = soxr.resample(x, RATE, 16000).astype(np.float32)
    state, context, out = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    for block in x[:len(x) // BLOCK * BLOCK].reshape(-1, 1, BLOCK):
        p, state = silero.run(None, {'input': np.hstack([context, block]), 'state': state,
                                     'sr': np.array(16000, np.int64)})
        context = block[:, -64:]
        out.append(p[0, 0])
    return np.array(out)


def by_library(x, model, strength):
    """One probability per hop of the input, known once the hop's output is."""
    handle = open_model(model, engine=b'cpu', block=HOP)
    set_controls(handle, 0, strength)
    delay, out = lib.primeknet_get_delay(handle) // HOP, []
    for hop in np.pad(x, (0, delay * HOP))[:(len(x) // HOP + delay) * HOP].reshape(-1, HOP):
        row = (ctypes.c_void_p * 1)(hop.ctypes.data)
        lib.primeknet_process(handle, row, row, ctypes.c_size_t(HOP))
        out.append(lib.primeknet_get_voice(handle, 0))
    lib.primeknet_close(handle)
    return np.array(out[delay:])


def area(score, truth):
    """The area under the curve of hits over false alarms (ROC)."""
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    n = truth.sum()
    return (rank[truth].sum() - n * (n + 1) / 2) / (n * (len(truth) - n))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pairs')
    parser.add_argument('--model', default='small')
    parser.add_argument('--strength', type=float, default=1)
    parser.add_argument('--gain', type=float, default=0)
    args = parser.parse_args()

    def one(row):
        path = os.path.join(args.pairs, row['name'])
        clean = soundfile.read(path + '_clean.flac', dtype='float32')[0]
        noisy = soundfile.read(path + '_noisy.flac', dtype='float32')[0] * np.float32(10 ** (args.gain / 20))
        truth, heard, ours = by_silero(clean) > .5, by_silero(noisy), by_library(noisy, args.model, args.strength)
        hops = np.arange(int(row['start']) // HOP + 6, min(len(ours), len(truth) * 6))
        return truth[hops // 6], ours[hops], heard[hops // 6]

    with open(os.path.join(args.pairs, 'pairs.tsv')) as f:
        rows = [r for r in csv.DictReader(f, delimiter='\t') if r['rate'] == str(RATE)
                and os.path.exists(os.path.join(args.pairs, r['name'] + '_clean.flac'))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(one, rows))
    for part, name in ((slice(0, None, 2), 'first half'), (slice(1, None, 2), 'other half'), (slice(None), 'all')):
        truth, ours, heard = (np.concatenate(x) for x in zip(*results[part]))
        for who, score in ((args.model, ours), ('silero-vad', heard)):
            said = score > .5
            print(f'{name:10} {who:10} wrong {np.mean(said != truth):.3f}  missed {np.mean(~said[truth]):.3f}  '
                  f'false {np.mean(said[~truth]):.3f}  area {area(score, truth):.3f}  speech {truth.mean():.3f}')


if __name__ == '__main__':
    main()
