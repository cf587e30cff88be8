"""Fetch recordings from public repositories: python3 -m training.data.fetch OUT TABLE [--source NAME...]

training/recordings.tsv.xz names every recording of `SETS` in models/sources.tsv whose licence is not in doubt (column
`spdx`), with its repository on GitHub, commit and path. OUT/KIND/SOURCE/SPEAKER/FILE gets what originals.py
reads, and TABLE its sources with their licences. Each commit is fetched alone, into a folder that is then removed; what
can no longer be had is named.
"""
import argparse
import csv
import itertools
import lzma
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, '..', 'recordings.tsv.xz')
SOURCES = os.path.join(HERE, '..', '..', 'models', 'sources.tsv')
SETS = 'originals 3', 'originals 4'


def rows(file):
    return csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE)


def fetch(repository, commit, files, out):
    """-> how many of the files lie in OUT now"""
    with tempfile.TemporaryDirectory(dir=out) as git:
        def run(*command, **more):
            return subprocess.run(['git', '-C', git, *command], **more)

        run('init', '-q', '--bare', check=True)
        if run('fetch', '-q', '--depth', '1', f'https://github.com/{repository}', commit).returncode:
            return 0
        with subprocess.Popen(['git', '-C', git, 'cat-file', '--batch'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as batch:
            found = 0
            for r in files:
                batch.stdin.write(f'{commit}:{r["path"]}\n'.encode())
                batch.stdin.flush()
                head = batch.stdout.readline().split()
                if head[-1] == b'missing':
                    continue
                folder = os.path.join(out, r['kind'], r['source'], r['speaker'] or '-')
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f'{head[0][:6].decode()}_{os.path.basename(r["path"])}'), 'wb') as f:
                    f.write(batch.stdout.read(int(head[2])))
                batch.stdout.read(1)
                found += 1
            batch.stdin.close()
    return found


def main():
    ap = argparse.ArgumentParser(description='Fetch recordings from public repositories.')
    ap.add_argument('out')
    ap.add_argument('table')
    ap.add_argument('--source', nargs='+', help='only these')
    a = ap.parse_args()
    with lzma.open(RECORDINGS, 'rt') as f:
        wanted = [r for r in rows(f) if not a.source or r['source'] in a.source]
    os.makedirs(a.out, exist_ok=True)
    with open(SOURCES) as f, open(a.table, 'w') as table:
        print('source', 'use', 'licence', sep='\t', file=table)
        for r in rows(f):
            if r['set'] in SETS and r['spdx'] != 'NOASSERTION':
                print(r['source'], 'train', r['spdx'], sep='\t', file=table)
    lost = 0
    for (repository, commit), files in itertools.groupby(wanted, lambda r: (r['repository'], r['commit'])):
        files = list(files)
        found = fetch(repository, commit, files, a.out)
        lost += len(files) - found
        print(f'{repository}: {found} of {len(files)} files', flush=True)
    sys.exit(f'{lost} files could not be had' if lost else 0)


if __name__ == '__main__':
    main()
