"""What homing why predicted for a program, beside what the lab's observer counted before and after the remedy.

    lab.py NAME WHAT PREFIX    a row in Markdown; ends with 1 where they are further apart than APART or GAIN

WHAT is `cost`, `time` or both by a comma. Of each there are PREFIX.WHAT.why, .before and .after.
"""
import json
import sys

APART = 4.0  # points of non-local %: the same program differs by up to 3 from run to run
GAIN = 3.0  # points of the gain


def load(path):
    with open(path) as file:
        return json.load(file)


def misses(counts):
    """(local, remote) misses of the whole run."""
    nodes, local, all_of_them = counts["nodes"], 0, 0
    for interval in counts["intervals"]:
        for row, node in zip(interval["misses"], counts["node_of_cpu"]):
            local += row[nodes.index(node)]
            all_of_them += sum(row)
    return local, all_of_them - local


def percent(local, remote):
    return 100 * remote / max(1, local + remote)


def lasted(counts):
    """Milliseconds from the first interval with misses to the last."""
    busy = [interval["ms"] for interval in counts["intervals"] if any(map(any, interval["misses"]))]
    return busy[-1] - busy[0]


def waited(counts, ratio):
    """What the lab injects into the slowest CPU, in local misses."""
    nodes, costs = counts["nodes"], [0.0] * len(counts["node_of_cpu"])
    for interval in counts["intervals"]:
        for cpu, (row, node) in enumerate(zip(interval["misses"], counts["node_of_cpu"])):
            local = row[nodes.index(node)]
            costs[cpu] += local + ratio * (sum(row) - local)
    return max(costs)


def less(before, after):
    return 100 * (1 - after / before)


def gain(report, counted):
    """The predicted range and the counted gain in a cell, and whether they agree."""
    low, high = 100 * report["gain"]["low"], 100 * report["gain"]["high"]
    inside = low - GAIN <= counted <= high + GAIN
    predicted = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
    return f"{predicted} / {counted:.0f}", inside


def remote(report):
    """What a remote miss costs, in local ones."""
    machine = report["machine"]
    return machine["remote"] if "remote" in machine else machine["access"][0][1]


def cost(prefix):
    """The cells of the memory cost."""
    report, counts = load(f"{prefix}.why"), [misses(load(f"{prefix}.{when}")) for when in ("before", "after")]
    predicted = [report["traffic"][key]["nonlocal_percent"] for key in ("now", "with_remedies")]
    counted = [percent(*pair) for pair in counts]
    # A program that does the same has the same misses: costs are compared by miss.
    costs = [(local + remote(report) * away) / max(1, local + away) for local, away in counts]
    cell, inside = gain(report, less(*costs))
    close = all(abs(p - c) <= APART for p, c in zip(predicted, counted))
    return [f"{p:.1f} / {c:.1f}" for p, c in zip(predicted, counted)] + [cell], inside and close


def time(prefix):
    """The cell of the section's time. The clock is shown, not judged: it is the host's."""
    report, counts = load(f"{prefix}.why"), [load(f"{prefix}.{when}") for when in ("before", "after")]
    cell, inside = gain(report, less(*(waited(count, remote(report)) for count in counts)))
    return [f"{cell} / {less(*map(lasted, counts)):.0f}"], inside


def main(name, what, prefix):
    measures = what.split(",")
    costs, near = cost(f"{prefix}.cost") if "cost" in measures else (["-"] * 3, True)
    times, inside = time(f"{prefix}.time") if "time" in measures else (["-"], True)
    verdict = load(f"{prefix}.{measures[-1]}.why")["verdict"]
    print("|", " | ".join([name, verdict] + costs + times), "|" + ("" if near and inside else " apart"))
    return 0 if near and inside else 1


sys.exit(main(*sys.argv[1:]))
