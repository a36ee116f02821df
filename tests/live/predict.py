"""A live run that was observed, and its simulation: a row of the table of tests/live_predict.sh.

    predict.py pace COUNTS                       nanoseconds of an access on one CPU, of a run without an engine
    predict.py delays LOG                        what scans and process scans took in a live run (medians), as the monitor's parameters
    predict.py row NAME COUNTS SIMULATED         the row; ends with 1 where the two are further apart than they should be
"""
import json
import statistics
import sys

WINDOW = 5  # intervals of 100 ms that are taken together
ABOVE = 2.0  # points above the tail at which a run has not settled
POINTS, FACTOR = 3.0, 1.5  # how far the two may be apart


def observed(name):
    """(end in ms, local, remote) of each interval: misses."""
    counts = json.load(open(name))
    nodes = counts["nodes"]

    def parts(interval):
        local = sum(row[nodes.index(node)] for row, node in zip(interval["misses"], counts["node_of_cpu"]))
        return interval["ms"], local, sum(map(sum, interval["misses"])) - local

    return [parts(interval) for interval in counts["intervals"]], counts


def simulated(name):
    session = json.load(open(name))["session"]

    def parts(point):
        remote = round(point["misses"] * (point["nonlocal_percent"] or 0) / 100)
        return point["ms"], point["misses"] - remote, remote

    return [parts(point) for point in session["curve"]], session


def percent(parts):
    local, remote = sum(part[1] for part in parts), sum(part[2] for part in parts)
    return 100 * remote / max(1, local + remote)


def tail(parts):
    """The last third of the misses."""
    wanted, seen, start = sum(part[1] + part[2] for part in parts) / 3, 0, len(parts)
    while start > 0 and seen < wanted:
        start -= 1
        seen += parts[start][1] + parts[start][2]
    return parts[start:]


def settled(parts):
    """Seconds until the end of the last half second that is above all of the tail's."""
    def windows(parts):
        whole = (parts[at:at + WINDOW] for at in range(0, len(parts), WINDOW))
        return [(percent(part), sum(p[1] + p[2] for p in part), part[-1][0]) for part in whole]

    mean = sum(window[1] for window in windows(parts)) / max(1, len(windows(parts)))
    thick = lambda some: [window for window in some if window[1] >= mean / 4]
    highest = max((window[0] for window in thick(windows(tail(parts)))), default=0)
    late = [window[2] for window in thick(windows(parts)) if window[0] > highest + ABOVE]
    return (late[-1] - parts[0][0]) / 1000 if late else 0.0


def course(parts):
    tenth = max(1, -(-len(parts) // 8))
    return " ".join(f"{percent(parts[at:at + tenth]):.0f}" for at in range(0, len(parts), tenth))


if sys.argv[1] == "pace":
    parts, counts = observed(sys.argv[2])
    busy = [interval for interval in counts["intervals"] if sum(map(sum, interval["accesses"])) > 0]
    wall = busy[-1]["ms"] - busy[0]["ms"]
    print(f"{wall * 1e6 * len(counts['accesses']) / sum(sum(map(sum, part['accesses'])) for part in busy[1:]):.2f}")
    sys.exit()

if sys.argv[1] == "delays":
    inputs = [line["input"] | {"t": line["t"]} for line in map(json.loads, open(sys.argv[2])) if isinstance(line.get("input"), dict)]
    scans = [line["scanned"] | {"t": line["t"]} for line in inputs if "scanned" in line]
    times = {
        "ready": [scan["t"] - scan["began"] - scan["stopped"] for scan in scans],
        "stop": [scan["stopped"] for scan in scans],
        "look": [line["looked"]["cost"] for line in inputs if "looked" in line],
    }
    print(",".join(f"{name}={statistics.median(all) / 1000:.1f}" for name, all in times.items()))
    sys.exit()

live, counts = observed(sys.argv[3])
model, session = simulated(sys.argv[4])
rows = [(percent(parts), percent(tail(parts)), settled(parts), (parts[-1][0] - parts[0][0]) / 1000, course(parts)) for parts in (live, model)]
moved = (counts.get("kernel", {}).get("pgmigrate_success", "-"), session["moved"])
for who, row, pages in zip(("live", "simulated"), rows, moved):
    print(f"| {sys.argv[2]} | {who} | {row[0]:.1f} | {row[1]:.1f} | {row[2]:.1f} | {row[3]:.0f} | {pages} | {row[4]} |")
apart, (one, two) = abs(rows[0][1] - rows[1][1]), sorted((max(row[2], 0.5) for row in rows))
problems = [f"tails {apart:.1f} points apart"] * (apart > POINTS) + [f"settling times {two / one:.1f} times apart"] * (two > FACTOR * one)
print(f"{sys.argv[2]}: {', '.join(problems) or 'as predicted'}", file=sys.stderr)
sys.exit(bool(problems))
