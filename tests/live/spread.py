"""Was a table spread that all nodes use at random and that begins on one of them? The engine's SUMMARY, and COUNTS of the observer."""
import json
import sys

summary, counts = (json.load(open(name)) for name in sys.argv[1:])
spread, scans = summary["spread"], summary["scans"]["scans"]
after_users = summary["pages_moved"] - spread


def shares(part):
    """Of each node, the share of the accesses that its memory answers, in per cent."""
    by_node = [sum(column) for column in zip(*part["accesses"])]
    return [100 * answered / max(sum(by_node), 1) for answered in by_node]


busy = max(sum(map(sum, part["accesses"])) for part in counts["intervals"]) / 2
curve = [shares(part) for part in counts["intervals"] if sum(map(sum, part["accesses"])) > busy]
print("answered by the most loaded memory, %:", *(f"{max(part):.0f}" for part in curve))
print(f"of 1024 pages {after_users} moved after their users, {spread} spread; {scans} scans in {summary['seconds']:.0f} s")
print("moves refused:", summary["refused"], "pauses:", summary["pauses"])
problems = []
if not spread and not summary["pauses"] and not any(why.startswith("no gain") for why in summary["refused"]):
    problems.append("the engine saw something to gain")
if after_users > 1100:
    problems.append("pages moved to and fro")
if scans > 16:
    problems.append("scans were not rare")
if min(map(max, curve)) > 40 or max(curve[-1]) > 45:
    problems.append("one memory answers for all")
print("problems:", problems)
sys.exit(bool(problems))
