import os
import sys

import numpy as np
import pytest
import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../..'))
if not torch.cuda.is_available():
    os.environ['TRITON_INTERPRET'] = '1'                # before a test imports a kernel


@pytest.fixture
def mixer(tmp_path):
    """Of packs of noise."""
    from training.data.clips import Mixer
    rng = np.random.default_rng(0)
    for name, n in dict(speech_full=1600000, speech_wide=600000, noise=2400000, noise_wide=800000, rooms_full=48000,
                        rooms_wide=72000).items():
        (rng.standard_normal(n) * 3000).astype(np.int16).tofile(tmp_path / (name + '.i16'))
    return Mixer(str(tmp_path), 96000, 'cpu', 7)
