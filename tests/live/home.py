"""Did the pages come home, twice? COUNTS of the observer of `bands` whose threads shift when its pages are home, 
and, if there are any, the engine's SUMMARY and what `homing replay --check` CHECKED of its log."""
import json
import sys

counts, summary, checked = ([json.load(open(name)) for name in sys.argv[1:]] + [None, None])[:3]
cpus = len(counts["accesses"]) // len(counts["accesses"][0])


def nonlocal_percent(accesses):
    total = sum(map(sum, accesses))
    local = sum(row[cpu // cpus] for cpu, row in enumerate(accesses))
    return 100 * (total - local) / total


busy = max(sum(map(sum, part["accesses"])) for part in counts["intervals"]) / 10
curve = [nonlocal_percent(part["accesses"]) for part in counts["intervals"] if sum(map(sum, part["accesses"])) > busy]
print("non-local %:", *(f"{percent:.0f}" for percent in curve))

# Pages may follow while an interval goes on, so that no interval shows all of them away.
wanted = [("away", lambda p: p > 50), ("home", lambda p: p < 10), ("threads moved", lambda p: p > 25), ("home again", lambda p: p < 10)]
for percent in curve:
    if wanted and wanted[0][1](percent):
        del wanted[0]
problems = [f"never {name}" for name, _ in wanted]
if summary:
    if summary["pages_moved"] < 0.9 * 8 * 64 * 0.75:
        problems.append(f"only {summary['pages_moved']} pages moved")
    if summary["threads_moved"] < 4:
        problems.append(f"only {summary['threads_moved']} threads seen moving")
    used = {phase: round(seconds, 2) for phase, seconds in summary["engine_cpu_by_phase"].items()}
    print(f"engine: {100 * summary['engine_cpu_seconds'] / summary['seconds']:.1f} % of a vCPU, by phase, seconds of {summary['seconds']:.0f}:", used)
    print("pages moved:", summary["pages_moved"], "after their threads:", summary["forwarded"])
if checked:
    print("log:", checked)
    if checked["same"] != checked["actions"] or checked["first_difference"]:
        problems.append("a fresh session did not do the same")
    if checked["moves"] < 500 or checked["forwarded"] == 0:
        problems.append(f"only {checked['moves']} moves were checked, {checked['forwarded']} of pages sent after their threads")
print("problems:", problems)
sys.exit(bool(problems))
