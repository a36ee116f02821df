"""The second table of windows.sh: HOMING WORK WORKLOAD..., with programs in WORK/pass. What `compare` estimates
from windows beside what it says of full traces of other runs."""
import json
import os
import statistics
import subprocess
import sys

homing, work, workloads = sys.argv[1], sys.argv[2], sys.argv[3:]
seeds, threads, fulls = (int(os.environ.get(name, default))
                         for name, default in [("SEEDS", 5), ("THREADS", 2), ("FULL", 3)])
windows = os.environ.get("WINDOWS", "2ms/40ms")
arguments = {"cg": ["-n", "14000", "-i", "1200"], "is": ["-i", "1000"], "mg": ["-n", "64", "-i", "200"]}
# Round-robin is by order of first touch, which runs differ in.
policies = ["first-touch", "best-static", "homing", "striped"]
machines = ["butterfly", "eight-node"]


def output(*command):
    done = subprocess.run([homing, *command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"windows_policies.py: {' '.join(command)}: {done.stderr}")
    return done.stdout


def record(name, words, path, *more):
    output("record", "--quiet", "--recorder", "clang", *more, "-o", path, "--", f"{work}/pass/{name}", *words)


def figures(trace, machine, estimated):
    """Of each policy its MCPR and non-local percentage, every reference: values, or [low, value, high]."""
    spread = ["--threads-on", "one-per-node"]
    rows = json.loads(output("compare", trace, "-m", machine, *spread, "--every-reference", "--no-replication",
                             "--policies", ",".join(policies), "--json"))["traces"][0]["rows"]
    ends = lambda figure: [figure["low"], figure["value"], figure["high"]]
    found = {}
    for row in rows:
        if row["policy"] in policies:
            for what in ["mcpr", "nonlocal_percent"]:
                found[row["policy"], what] = ends(row["program"][what]) if estimated else row[what]
    return found


print(f"Windows of {windows}, {threads} threads, {seeds} seeds\n")
print("| workload | machine | of | figure | all recorded | from windows: median | error: worst | half interval: median "
      "| it holds the truth |")
print("|---|---|---|---|---|---|---|---|---|")
held = tried = 0
for name in workloads:
    words = [*arguments[name], "-t", str(threads)]
    full, trace = f"{work}/full.trace", f"{work}/windows.trace"
    # No two runs are the same: the truth is from the least to the most of several.
    runs = []
    for _ in range(fulls):
        record(name, words, full)
        runs.append({machine: figures(full, machine, False) for machine in machines})
        os.remove(full)
    truth = {machine: {key: sorted(run[machine][key] for run in runs) for key in runs[0][machine]}
             for machine in machines}
    found = {machine: [] for machine in machines}
    for seed in range(seeds):
        record(name, words, trace, "--windows", windows, "--seed", str(seed))
        for machine in machines:
            found[machine].append(figures(trace, machine, True))
    for machine in machines:
        for key, exact in truth[machine].items():
            if any(one[key][0] is None for one in found[machine]):
                sys.exit(f"windows_policies.py: {name}: too few windows for an interval: take shorter periods (WINDOWS)")
            estimates = [one[key] for one in found[machine]]
            holds = sum(low <= exact[-1] and exact[0] <= high for low, _, high in estimates)
            middle = statistics.median(exact)
            held, tried = held + holds, tried + seeds
            print(f"| `{name} {' '.join(words)}` | {machine} | {key[0]} | {key[1]} "
                  f"| {middle:.4f} ({exact[0]:.4f} to {exact[-1]:.4f}) "
                  f"| {statistics.median(value for _, value, _ in estimates):.4f} "
                  f"| {max(abs(value - middle) for _, value, _ in estimates):.4f} "
                  f"| {statistics.median((high - low) / 2 for low, _, high in estimates):.4f} "
                  f"| {holds} of {seeds} |", flush=True)
print(f"\n{held} of {tried} intervals hold the truth")
