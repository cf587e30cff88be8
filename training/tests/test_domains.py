"""One network beside others: which pairs count, what is kept, what the rule says."""
import numpy as np
import pytest

soundfile = pytest.importorskip('soundfile')
domains = pytest.importorskip('training.evaluation.domains')
RATE = 16000


@pytest.fixture
def scores(monkeypatch):
    """Scores that a sound's mean gives; counts what was scored."""
    seen = []

    def score(a, pair):
        y, _ = soundfile.read(f"{a.enhanced}/{pair['name']}_noisy.flac")
        seen.append(pair['name'])
        row = pair | dict.fromkeys(domains.KEYS, np.nan) | dict(pesq=y.mean() * 10)
        return row if a.distillmos is False else listen(a, row)

    def listen(a, row):
        seen.append('heard ' + row['name'])
        return row | dict(distillmos=row['pesq'])

    class Here:
        """A pool of this process."""
        def __init__(self, jobs): pass
        def __enter__(self): return self
        def __exit__(self, *exception): pass

        def submit(self, f, *arguments):
            result = f(*arguments)
            return type('Job', (), dict(result=lambda self: result))()

    monkeypatch.setattr(domains, 'score', score)
    monkeypatch.setattr(domains, 'listen', listen)
    monkeypatch.setattr(domains, 'ProcessPoolExecutor', Here)
    return seen


@pytest.fixture
def folder(tmp_path):
    """Eight pairs of two domains and two systems: `new` is .01 to .03 better in `near` and as much worse in `far`."""
    (tmp_path / 'pairs').mkdir()
    names = [f'{d}_{i:03}' for d in ('near', 'far') for i in range(8)]
    (tmp_path / 'pairs' / 'pairs.tsv').write_text('name\trate\tsnr_db\n' + ''.join(f'{n}\t{RATE}\t5\n' for n in names))
    for system in ('old', 'new'):
        (tmp_path / 'scores' / system).mkdir(parents=True)
        for i, n in enumerate(names):
            step = (system == 'new') * (.02 + .01 * (i % 3 - 1)) * (1 if 'near' in n else -1)
            soundfile.write(tmp_path / 'scores' / system / f'{n}_noisy.flac', np.full(100, .2 + .01 * (i % 5) + step),
                            RATE)
    return tmp_path


def run(monkeypatch, capsys, folder, *arguments):
    monkeypatch.setattr('sys.argv', ['domains.py', str(folder / 'pairs'), str(folder / 'scores'), *arguments])
    domains.main()
    return capsys.readouterr().out


def test_only_the_half_that_is_asked_for_is_scored_and_only_once(folder, scores, monkeypatch, capsys):
    run(monkeypatch, capsys, folder, 'old', '--quick')
    assert scores == [f'{d}_{i:03}' for d in ('near', 'far') for i in (0, 2, 4, 6)]
    run(monkeypatch, capsys, folder, 'old', '--quick', '--half', 'all')
    assert len(scores) == 16 and sum('_001' in s for s in scores) == 2
    scores.clear()
    run(monkeypatch, capsys, folder, 'old')
    assert scores == [f'heard {d}_{i:03}' for d in ('near', 'far') for i in (0, 2, 4, 6)]
    scores.clear()
    out = run(monkeypatch, capsys, folder, 'old', '--out', str(folder / 'means.tsv'))
    assert not scores and 'near (4)' in out and 'far (4)' in out
    head, near, far = ((folder / 'means.tsv').read_text().splitlines())
    assert near.startswith('near\told\t4\t2.') and len(near.split('\t')) == len(head.split('\t'))


def test_a_network_that_falls_in_one_domain_does_not_ship(folder, scores, monkeypatch, capsys):
    out = run(monkeypatch, capsys, folder, 'new', '--against', 'old', '--half', 'all')
    assert 'new does not ship' in out
    assert 'far: WB-PESQ -' in out and 'near: WB-PESQ' not in out
    assert 'over old' in out
    for options, said in ((['--half', 'all'], 'new ships'), ([], 'new may ship'),
                          (['--half', 'all', '--quick'], 'new may ship')):
        rows = [f'near_{i:03}\t{RATE}\t5\n' for i in range(8)]
        (folder / 'pairs' / 'pairs.tsv').write_text('name\trate\tsnr_db\n' + ''.join(rows))
        assert said in run(monkeypatch, capsys, folder, 'new', '--against', 'old', *options)


def test_the_mean_over_the_domains_is_to_rise():
    rows = lambda *values: [dict.fromkeys(domains.KEYS, np.nan) | dict(pesq=v) for v in values]
    level = dict(near=dict(a=rows(2, 2.1), b=rows(2.1, 2)), far=dict(a=rows(1, 1.1), b=rows(1, 1.1)))
    assert domains.verdict('a', ['b'], level) == ['mean over the domains: WB-PESQ +0.000 over b']
    level['far']['a'] = rows(1.5, 1.6)
    assert domains.verdict('a', ['b'], level) == []


def test_a_model_file_is_run_on_what_its_folder_lacks(folder, scores, monkeypatch, capsys):
    runs = []

    def enhance(command, **options):
        out = command[command.index('--out') + 1]
        files = command[command.index('--out') + 2:]
        runs.append(len(files))
        for f in files:
            soundfile.write(f"{out}/{f.rsplit('/', 1)[1]}", np.full(100, .3), RATE)
    monkeypatch.setattr(domains.subprocess, 'run', enhance)
    for half in ('open', 'all', 'all'):
        out = run(monkeypatch, capsys, folder, str(folder / 'net.safetensors'), '--half', half)
    assert runs == [8, 8] and '3.00±0.00' in out


def test_what_a_cold_start_costs(folder, scores, monkeypatch, capsys):
    with open(folder / 'pairs' / 'pairs.tsv', 'a') as table:
        for i in (0, 2):
            print(f'near-warm_{i:03}\t{RATE}\t5', file=table)
            y, _ = soundfile.read(folder / 'scores' / 'old' / f'near_{i:03}_noisy.flac')
            soundfile.write(folder / 'scores' / 'old' / f'near-warm_{i:03}_noisy.flac', y + .01, RATE)
    out = run(monkeypatch, capsys, folder, 'old')
    assert any(line.startswith('over cold old') and '+0.10±0.00' in line for line in out.splitlines())
