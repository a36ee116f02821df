"""What homing why predicted for a program, beside what the lab's observer counted before and after the remedy.

    lab.py NAME WHY.json BEFORE.json AFTER.json    a row in Markdown; ends with 1 where they are further apart than APART
"""
import json
import sys

APART = 4.0  # points of non-local %: the same program differs by up to 3 from run to run
GAIN = 3.0  # points of the gain


def misses(path):
    """(local, remote) misses of the whole run."""
    counts = json.load(open(path))
    nodes, local, all_of_them = counts["nodes"], 0, 0
    for interval in counts["intervals"]:
        for row, node in zip(interval["misses"], counts["node_of_cpu"]):
            local += row[nodes.index(node)]
            all_of_them += sum(row)
    return local, all_of_them - local


def percent(local, remote):
    return 100 * remote / max(1, local + remote)


def main(name, why, before, after):
    report = json.load(open(why))
    ratio = report["machine"]["remote"] if "remote" in report["machine"] else report["machine"]["access"][0][1]
    counted = [misses(path) for path in (before, after)]
    predicted = [report["traffic"][key]["nonlocal_percent"] for key in ("now", "with_remedies")]
    measured = [percent(*pair) for pair in counted]
    # A program that does the same has the same misses: costs are compared by miss.
    cost = [(local + ratio * remote) / max(1, local + remote) for local, remote in counted]
    gain, low, high = 100 * (1 - cost[1] / cost[0]), 100 * report["gain"]["low"], 100 * report["gain"]["high"]
    apart = max(abs(p - m) for p, m in zip(predicted, measured))
    good = apart <= APART and low - GAIN <= gain <= high + GAIN
    print(
        f"| {name} | {report['verdict']} | {predicted[0]:.1f} / {measured[0]:.1f} | {predicted[1]:.1f} / {measured[1]:.1f} "
        f"| {low:.0f} to {high:.0f} | {gain:.0f} |{'' if good else ' apart'}"
    )
    return 0 if good else 1


sys.exit(main(*sys.argv[1:]))
