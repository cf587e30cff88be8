import lzma
import os
import re
import subprocess
import sys

from training.data import fetch
from training.data.originals import NEVER

SPDX = {'Apache-2.0', 'Artistic-1.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC-BY-3.0', 'CC-BY-4.0', 'CC-BY-SA-2.0',
        'CC-BY-SA-3.0', 'CC-BY-SA-4.0', 'CC0-1.0', 'GPL-1.0-or-later', 'GPL-2.0-only', 'GPL-2.0-or-later',
        'GPL-3.0-only', 'GPL-3.0-or-later', 'LAL-1.3', 'LGPL-2.0-or-later', 'LGPL-3.0-or-later', 'MIT', 'MPL-1.1',
        'ODC-By-1.0', 'Zlib', 'LicenseRef-CC-BY', 'LicenseRef-CC-BY-SA', 'LicenseRef-CMU-ARCTIC',
        'LicenseRef-public-domain'}


def table(file):
    return list(fetch.rows(file))


def test_every_source_has_a_licence():
    with open(fetch.SOURCES) as f:
        for row in table(f):
            assert row['spdx'] == 'NOASSERTION' or SPDX.issuperset(re.split(' (?:AND|OR) ', row['spdx'])), row


def test_what_is_fetched_is_free_and_not_held_out():
    with open(fetch.SOURCES) as f:
        free = {r['source'] for r in table(f) if r['set'] in fetch.SETS and r['spdx'] != 'NOASSERTION'}
    with lzma.open(fetch.RECORDINGS, 'rt') as f:
        wanted = table(f)
    for r in wanted:
        vctk = re.fullmatch(r'vctk-p(\d+)', r['speaker'])
        assert r['source'] in free and not (vctk and int(vctk[1]) % 4 == 0), r
        assert not NEVER.search(f"{r['source']}/{r['speaker']}/{r['path']}") and len(r['commit']) == 40, r


def test_recordings_come_from_their_commit(tmp_path, monkeypatch, capsys):
    repository = tmp_path / 'github' / 'owner' / 'name'
    repository.mkdir(parents=True)

    def git(*command):
        return subprocess.run(['git', '-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@b', *command],
                              check=True, capture_output=True, text=True).stdout.strip()
    git('init', '-q')
    git('config', 'uploadpack.allowAnySHA1InWant', 'true')
    for content in 'then', 'now':
        (repository / 'a b.wav').write_text(content)
        git('add', '.')
        git('commit', '-qm', content)
    commit = git('rev-parse', 'HEAD^')
    monkeypatch.setenv('GIT_CONFIG_COUNT', '1')
    monkeypatch.setenv('GIT_CONFIG_KEY_0', f'url.file://{tmp_path}/github/.insteadOf')
    monkeypatch.setenv('GIT_CONFIG_VALUE_0', 'https://github.com/')
    monkeypatch.setattr(fetch, 'RECORDINGS', tmp_path / 'recordings.tsv.xz')
    with lzma.open(fetch.RECORDINGS, 'wt') as f:
        print('kind', 'source', 'speaker', 'repository', 'commit', 'path', sep='\t', file=f)
        for name, path in ('owner/name', 'a b.wav'), ('owner/name', 'gone.wav'), ('owner/other', 'a.wav'):
            print('speech', 'kathleen', '', name, commit, path, sep='\t', file=f)
    monkeypatch.setattr(sys, 'argv', ['fetch', str(tmp_path / 'out'), str(tmp_path / 'sources.tsv')])
    try:
        fetch.main()
        assert False, 'two are missing'
    except SystemExit as end:
        assert end.code == '2 files could not be had'
    assert 'owner/name: 1 of 2 files\nowner/other: 0 of 1 files' in capsys.readouterr().out
    folder = tmp_path / 'out' / 'speech' / 'kathleen' / '-'
    assert [re.sub('^[0-9a-f]{6}_', '', name) for name in os.listdir(folder)] == ['a b.wav']
    assert next(folder.iterdir()).read_text() == 'then'
    assert 'kathleen\ttrain\tCC0-1.0' in (tmp_path / 'sources.tsv').read_text()
