"""One network beside others, by domains:
python3 -m training.evaluation.domains PAIRS SCORES SYSTEM... [--against SYSTEM...] [--half open|sealed|all]
[--only DOMAIN...] [--quick] [--primeknet PATH] [--jobs N] [--out FILE.tsv]

PAIRS is a folder that judge.py made. A SYSTEM is a model file, which `primeknet enhance` runs first; or NAME, whose
enhanced files lie in SCORES/NAME; or `noisy` or `clean`. What is scored is kept in SCORES/NAME.tsv, not scored again.
--quick leaves out Distill-MOS, which takes three fifths of the time; a later run without it adds that.

For each domain a table has the means of all systems, then what the first one has over those that --against names, each
clip against itself, with 95 % intervals; for `-warm` also what a cold start costs, the warm clips' scores over the cold
ones'. The verdict: the first ships only if in no domain one of `RULE` falls beyond its interval, against any of those,
and WB-PESQ's mean over the domains rises. Look at the sealed half only before that. --out writes all means.
"""
import argparse
import csv
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from training.evaluation.evaluate import KEYS, listen, read_table, score

RULE = 'pesq', 'estoi', 'distillmos', 'OVRL'
SHOWN = dict(pesq='WB-PESQ', first='first s', si_sdr='SI-SDR', estoi='ESTOI', distillmos='DistillMOS', OVRL='OVRL',
             cut_2_4='cut 2-4', pause='pauses', pause_worst='worst', before='before', after='after', faint='faint')
MORE = dict(events=dict(events='events'), faint=dict(breath='breath'))   # of one domain alone
CHUNK = 60


def domain(row):
    return row['name'].rsplit('_', 1)[0]


def of_half(rows, half):
    """Pairs with an even number are open."""
    wanted = dict(open=(0,), sealed=(1,), all=(0, 1))[half]
    return [r for r in rows if int(r['name'].rsplit('_', 1)[1]) % 2 in wanted]


def run_model(model, folder, files, primeknet):
    """Enhances those of the files that are missing in the folder, each as a live stream."""
    os.makedirs(folder, exist_ok=True)
    missing = [f for f in files if not os.path.exists(os.path.join(folder, os.path.basename(f)))]
    if missing:
        subprocess.run([primeknet, 'enhance', '--cold-start', '--model', model, '--engine', 'cpu', '--out', folder,
                        *missing], check=True, stdout=subprocess.DEVNULL)


def fill(path, known, jobs, columns, processes):
    """Writes a table of the rows `known`, by their names, and of those that the jobs (function, arguments) return."""
    with ProcessPoolExecutor(processes) as pool:
        for i in range(0, len(jobs), CHUNK):
            running = [pool.submit(*job) for job in jobs[i:i + CHUNK]]
            known |= {r['name']: r for r in (job.result() for job in running)}
            with open(path, 'w', newline='') as f:
                w = csv.DictWriter(f, columns, delimiter='\t', restval='nan')
                w.writeheader()
                w.writerows(known.values())
    return known


def scored(name, pairs, a):
    """-> rows of these pairs, from the table SCORES/NAME.tsv, which is filled up where it lacks some"""
    path = os.path.join(a.scores, name + '.tsv')
    known = {r['name']: r for r in read_table(path)} if os.path.exists(path) else {}
    missing = [(p['name'] not in known, known.get(p['name'], p)) for p in pairs]
    missing = [m for m in missing if m[0] or not a.quick and not np.isfinite(m[1]['distillmos'])]
    how = dict(pairs=a.pairs, enhanced=name if name in ('noisy', 'clean') else os.path.join(a.scores, name), delay=0,
               distillmos=not a.quick)
    known = fill(path, known, [(score if new else listen,
                                argparse.Namespace(**how, dnsmos=new and domain(row) == 'real'), row)
                               for new, row in missing], [*pairs[0], *KEYS], a.jobs)
    return [dict.fromkeys(KEYS, np.nan) | known[p['name']] for p in pairs]


def mean(values):
    """-> mean of the finite values, and half of its 95 % interval"""
    v = np.array([x for x in values if np.isfinite(x)])
    return (v.mean(), 1.96 * v.std(ddof=1) / len(v) ** .5) if len(v) > 1 else (np.nan, np.nan)


def cell(m, half, digits, sign=''):
    return '-' if not np.isfinite(m) else f'{m:{sign}.{digits}f}±{half:.{digits}f}'


def digits(key):
    return 3 if key == 'estoi' else 2 if key in ('pesq', 'first', 'distillmos', 'OVRL') else 1


def show(title, columns, lines):
    """lines: {name: {key: (mean, half)}}"""
    columns = {k: t for k, t in columns.items() if any(np.isfinite(of[k][0]) for of in lines.values())}
    print(f'{title:24}' + ''.join(f'{t:>13}' for t in columns.values()))
    for name, of in lines.items():
        sign = '+' if name.startswith('over ') else ''
        print(f'{name:24}' + ''.join(f'{cell(*of[k], digits(k), sign):>13}' for k in columns))
    print()


def write(path, found, keys=KEYS):
    """One row of all means for each domain and system."""
    with open(path, 'w') as f:
        print('domain', 'system', 'clips', *keys, sep='\t', file=f)
        for d, of in found.items():
            for name, rows in of.items():
                print(d, name, len(rows), *(cell(*m, digits(k)) for k, m in means(rows, keys).items()),
                      sep='\t', file=f)


def means(rows, keys=KEYS):
    """-> {key: (mean, half)}"""
    return {k: mean([r[k] for r in rows]) for k in keys}


def over(rows, others, keys=KEYS):
    """-> {key: (mean, half)}: of each clip's difference"""
    return {k: mean([r[k] - o[k] for r, o in zip(rows, others)]) for k in keys}


def verdict(first, others, found):
    """first: name; others: names; found: {domain: {name: rows}} -> what speaks against shipping it"""
    against = []
    for other in others:
        rises = []
        for d, of in found.items():
            if (plain := d.removesuffix('-warm')) in found and plain != d:
                continue
            differences = over(of[first], of[other])
            against += [f'{d}: {SHOWN[k]} {cell(m, half, digits(k), "+")} over {other}' for k in RULE
                        for m, half in [differences[k]] if m < -half]
            rises.append(differences['pesq'][0])
        if (rise := np.nanmean(rises)) <= 0:
            against.append(f'mean over the domains: WB-PESQ {rise:+.3f} over {other}')
    return against


def arguments(description):
    ap = argparse.ArgumentParser(description=description)
    ap.add_argument('pairs')
    ap.add_argument('scores')
    ap.add_argument('systems', nargs='+', help='model files, or names of folders in SCORES')
    ap.add_argument('--against', nargs='+', default=[], metavar='SYSTEM', help='what the first must not fall behind')
    ap.add_argument('--half', choices=['open', 'sealed', 'all'], default='open')
    ap.add_argument('--only', nargs='+', metavar='DOMAIN', help='these domains')
    ap.add_argument('--primeknet', default='primeknet')
    ap.add_argument('--jobs', type=int, default=1)
    ap.add_argument('--out', help='a table of the means')
    return ap


def prepared(ap, a):
    """-> the pairs that are asked for, {system: name}; all models have run on these pairs"""
    pairs = of_half(read_table(os.path.join(a.pairs, 'pairs.tsv')), a.half)
    if unknown := set(a.only or ()) - set(map(domain, pairs)):
        ap.error(f"no such domain in {a.pairs}: {', '.join(sorted(unknown))}")
    pairs = [p for p in pairs if not a.only or domain(p) in a.only]
    systems = {}
    for system in dict.fromkeys([*a.systems, *a.against]):
        name, end = os.path.splitext(os.path.basename(system))
        if end == '.safetensors':
            run_model(system, os.path.join(a.scores, name), [os.path.join(a.pairs, f"{p['name']}_noisy.flac")
                                                             for p in pairs], a.primeknet)
        systems[system] = name if end == '.safetensors' else system
    return pairs, systems


def grouped(pairs, rows, groups=lambda row: [domain(row)]):
    """rows: {name: rows} -> {group: {name: rows}}"""
    return {d: {name: [r for r in of if d in groups(r)] for name, of in rows.items()}
            for d in dict.fromkeys(d for p in pairs for d in groups(p))}


def main():
    ap = arguments('One network beside others, by domains.')
    ap.add_argument('--quick', action='store_true', help='without Distill-MOS')
    a = ap.parse_args()
    pairs, systems = prepared(ap, a)
    rows = {name: scored(name, pairs, a) for name in systems.values()}
    first, others = systems[a.systems[0]], [systems[s] for s in a.against]
    found = grouped(pairs, rows)
    for d, of in found.items():
        lines = {name: means(some) for name, some in of.items()}
        lines |= {f'over {o}': over(of[first], of[o]) for o in others}
        if (plain := d.removesuffix('-warm')) in found and plain != d:
            cold = {name: {r['name']: r for r in some} for name, some in found[plain].items()}
            lines |= {f'over cold {name}': over(some, [cold[name][r['name'].replace('-warm', '')] for r in some])
                      for name, some in of.items()}
        show(f'{d} ({len(of[first])})', SHOWN | MORE.get(d, {}), lines)
    if a.out:
        write(a.out, found)
    if others:
        against = verdict(first, others, found)
        whole = a.half != 'open' and not a.quick and not a.only
        print(f'{first} ' + ('does not ship:' if against else 'ships' if whole else
                             'may ship: nothing fell here; the sealed half, all domains and Distill-MOS decide'),
              *against, sep='\n  ')


if __name__ == '__main__':
    main()
