"""The figures of benches/lab.sh, from the files that its jobs left in a folder, against what is expected of them.

lab.py FOLDER EXPECTED [some]     prints a table in Markdown; ends with 1 if a figure is not as expected, or, without `some`,
if one is missing
"""
import json
import statistics
import sys
from pathlib import Path


def load(path):
    return json.loads(path.read_text())


def runs(folder, pattern):
    """The files of the runs of one measurement."""
    return sorted(path for path in folder.glob(pattern) if path.stat().st_size > 0)


def by_home(part, kind):
    return [sum(column) for column in zip(*part[kind])]


def busy(counts, kind):
    """The intervals with more than half of the counts of the busiest."""
    least = max(sum(by_home(part, kind)) for part in counts["intervals"]) / 2
    return [part for part in counts["intervals"] if sum(by_home(part, kind)) > least]


def latencies(folder):
    rows = [[line.split() for line in path.read_text().splitlines()] for path in runs(folder, "latency.*.out")]
    for nodes in zip(*rows):
        if nodes[0][0] != "0":
            yield f"latency {nodes[0][0]}", [float(row[2]) for row in nodes]


def model(counts, seconds, nodes, home):
    """What a request waits at a memory by the formula of lab/plugin/load.c, from the totals of a run: M/D/1 where a memory
    is busy for 40 ns with each request, and nobody waits for itself."""
    used = 40 * sum(row[home] for row in counts["accesses"]) / (seconds * 1e9 / 100)
    return 40 * used * (1 - 1 / nodes.count(home)) / (2 * (1 - used))


def waits(folder):
    for name, nodes in (("one memory", [0] * 4), ("own memories", [0, 1, 2, 3])):
        values = []
        for path in runs(folder, f"wait-{name.split()[0]}.*.counts"):
            counts, seconds = load(path), float(path.with_suffix(".out").read_text())
            wait = counts["mean_wait_ns"]
            values.append(wait[0] / model(counts, seconds, nodes, 0) if name == "one memory" else max(wait))
        yield f"wait, {name}", values


def balancing(folder):
    yield "hint faults, fast", [load(path)["kernel"]["numa_hint_faults"] for path in runs(folder, "hints.*.counts")]
    for path in runs(folder, "baseline.json"):
        single, fast = load(path)["rows"]
        yield "baseline fast, tail", [run["tail_percent"] for run in fast["runs"]]
        yield "baseline fast, moved", [run["moved_pages"] for run in fast["runs"]]
        yield "baseline fast, modelled", [fast["median"]["modelled_ms"] / single["median"]["modelled_ms"]]


def tried(folder):
    for path in runs(folder, "try.json"):
        found = load(path)
        remote, local = (way["transactions"]["nonlocal_percent"] for way in found["ways"])
        yield "try, remote", [remote]
        yield "try, local", [local]
        yield "try, faster", [int(found["faster"] == ["against"])]


def spread(folder):
    """A table that all nodes use at random and that begins on one of them: the share of the most loaded memory."""
    summaries = [load(path) for path in runs(folder, "spread.*.json")]
    curves = []
    for path in runs(folder, "spread.*.counts"):
        parts = [by_home(part, "accesses") for part in busy(load(path), "accesses")]
        curves.append([100 * max(part) / sum(part) for part in parts])
    yield "spread, most loaded memory at best", [min(curve) for curve in curves]
    yield "spread, most loaded memory at the end", [curve[-1] for curve in curves]
    yield "spread, moved after users", [found["pages_moved"] - found["spread"] for found in summaries]
    yield "spread, scans", [found["scans"]["scans"] for found in summaries]


def loaded(folder):
    def wait(counts):
        """What a miss waits for others, in nanoseconds."""
        misses = by_home(counts, "misses")
        return sum(ns * count for ns, count in zip(counts["mean_wait_ns"], misses)) / sum(misses)

    def rate(counts):
        """Misses in an interval, the median of the last third: once pages are where they stay."""
        rates = [sum(by_home(part, "misses")) for part in counts["intervals"]][:-1]
        return statistics.median(rates[-max(1, len(rates) // 3) :])

    alone, engine = ([load(path) for path in runs(folder, f"{name}.*.counts")] for name in ("alone", "engine"))
    if alone and engine:
        for name, of in (("waits", wait), ("misses a second", rate)):
            without = statistics.median(map(of, alone))
            yield f"loaded, {name} with the engine", [of(counts) / without for counts in engine]


def statuses(folder):
    for path in runs(folder, "*.status"):
        yield path.stem, [int(path.read_text())]


def main(folder, expected, some):
    figures = {}
    for measure in (latencies, waits, balancing, tried, spread, loaded, statuses):
        figures.update(measure(folder))
    good = True
    print("| figure | expected | median | runs | |\n|---|---|---|---|---|")
    for line in expected.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, least, most, unit = line.split("\t")
        values = figures.get(name)
        if not values:
            if not some:
                print(f"| {name} | {least} to {most} {unit} | not measured | | MISSING |")
                good = False
            continue
        median = statistics.median(values)
        inside = (not least or median >= float(least)) and (not most or median <= float(most))
        good = good and inside
        shown = " ".join(f"{value:.4g}" for value in values)
        print(f"| {name} | {least} to {most} {unit} | {median:.4g} | {shown} | {'' if inside else 'APART'} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["some"]))
