"""The table of benches/never-worse.sh from the JSON of its runs, DIR/START-THREADS-PAGES/PROGRAM.json."""
import json
import math
import pathlib
import sys

WORDS = {"node0": "node 0", "in-turn": "in turn", "never": "4 KiB", "always": "huge"}
ALLOWED = 1.03


def cells(directory):
    """(words of the cell, rows by contender), in the order of names."""
    for path in sorted(directory.glob("*/*.json")):
        start, threads, pages = path.parent.name.rsplit("-", 2)
        rows = {row["contender"]: row["median"] for row in json.loads(path.read_text())["rows"]}
        yield (path.stem, WORDS[start], threads, WORDS[pages]), rows


def mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


SETTING = ["program", "begins on", "threads", "pages"]
COLUMNS = [*SETTING, "none, s", "kernel, s", "homing, s", "of the better", "non-local %: none", "kernel", "homing"]
print("| " + " | ".join(COLUMNS) + " |")
print("|---" * len(COLUMNS) + "|")
ratios, beside = [], {"start": [], "balancing": []}
for cell, rows in cells(pathlib.Path(sys.argv[1])):
    none, kernel, homing = (rows[name]["counted_seconds"] for name in ("start", "balancing", "homing"))
    ratios.append(homing / min(none, kernel))
    beside["start"].append(homing / none)
    beside["balancing"].append(homing / kernel)
    ratio = f"**{ratios[-1]:.2f}**" if ratios[-1] > ALLOWED else f"{ratios[-1]:.2f}"
    shares = " | ".join(f"{rows[name]['nonlocal_percent']:.0f}" for name in ("start", "balancing", "homing"))
    print("| " + " | ".join(cell) + f" | {none:.1f} | {kernel:.1f} | {homing:.1f} | {ratio} | {shares} |")
held = sum(ratio <= ALLOWED for ratio in ratios)
print(
    f"\n{held} of {len(ratios)} cells within {ALLOWED} of the better; time of homing, geometric mean: "
    f"{mean(beside['start']):.2f} of none, {mean(beside['balancing']):.2f} of the kernel's, {mean(ratios):.2f} of the better of both"
)
