"""The gain that was predicted for a program beside how much less time the mended program takes on the same model.

    mended.py WHY.json WHY-of-the-mended.json    ends with 1 where the latter is more than APART points outside the range

The prediction moves pages and takes lines apart within the trace of the program as it is. The mended program has a
trace of its own, which goes through the caches with its own addresses: nothing of the prediction is in it.
"""
import json
import sys

APART = 6.0  # points: a run is cut into 32 intervals, and these are not the same in both


def time(report, contention):
    now = report["elapsed"]["now"]
    return now["seconds"] - (0 if contention else now["contention_seconds"])


def main(*paths):
    before, after = (json.load(open(path)) for path in paths)
    took = sorted(100 * (1 - time(after, contention) / time(before, contention)) for contention in (False, True))
    low, high = (100 * before["gain"][end] for end in ("low", "high"))
    print(f"; predicted {low:.0f} to {high:.0f} % of the section, mended {took[0]:.0f} to {took[1]:.0f} %", end="")
    return 0 if took[0] <= high + APART and took[1] >= low - APART and high > 5 else 1


sys.exit(main(*sys.argv[1:]))
