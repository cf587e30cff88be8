"""The commands of docs/training.md that begin with the demonstration's material and end with a model of one's own."""
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not shutil.which('primeknet'), reason='no primeknet in PATH: scripts/check has one')
def test_a_stranger_trains_a_model_that_the_tool_runs(tmp_path):
    section = (TOP / 'docs/training.md').read_text().split('## Ten minutes on a CPU')[1].split('\n## ')[0]
    commands = re.search(r'```\n(.*?)```', section, re.S)[1]
    shorter, n = re.subn('(training.train .*)', r'\1 --minutes .5', commands)
    assert n == 1
    for folder in 'scripts', 'training':
        (tmp_path / folder).symlink_to(TOP / folder)
    environment = os.environ | dict(PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
                                    PRIMEKNET_MODELS=str(TOP / 'models'))
    done = subprocess.run(['bash', '-euxc', shorter], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if missing := re.search('.* is missing; scripts/deps installs it', done.stdout):
        pytest.skip(missing[0])
    assert done.returncode == 0, done.stdout
    with open(tmp_path / 'run/curve.tsv') as f:
        rows = list(csv.DictReader(f, delimiter='\t'))
    if int(rows[-1]['step']) >= 40:  # a busy machine does not get far in half a minute
        assert float(rows[-1]['magnitude']) < .7 * float(rows[0]['magnitude'])
    (noisy, _), (enhanced, rate) = (soundfile.read(tmp_path / name) for name in ('demo/noisy.wav', 'enhanced.wav'))
    assert rate == 48000 and len(enhanced) == len(noisy) and np.abs(enhanced - noisy).max() > .01
    assert re.search(r'^enhanced.wav +-?\d', done.stdout, re.M), done.stdout
