"""The table of windows.sh: HOMING WORK WORKLOAD..., with programs in WORK/clang and WORK/pass."""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

homing, work, workloads = sys.argv[1], sys.argv[2], sys.argv[3:]
seeds, threads, fulls = (int(os.environ.get(name, default))
                         for name, default in [("SEEDS", 5), ("THREADS", 2), ("FULL", 3)])
windows = os.environ.get("WINDOWS", "5ms/100ms")
arguments = {"cg": ["-n", "14000", "-i", "2000"], "is": ["-i", "1500"], "mg": ["-n", "64", "-i", "200"]}
# One node a thread, so that there is something to place.
machines = ["butterfly", "eight-node"]


def used(command):
    """CPU seconds and seconds of a command."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"windows.py: {' '.join(command)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def optimal(trace, machine):
    command = [homing, "optimal", "--json", "--threads-on", "one-per-node", "--machine", machine, trace]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


print(f"Windows of {windows}, {threads} threads, {seeds} seeds; times are medians\n")
print("| workload | CPU | time | of all in windows | all recorded: CPU | time | machine | MCPR (all recorded) "
      "| error: median | worst | half interval: median | it holds the truth |")
print("|---|---|---|---|---|---|---|---|---|---|---|---|")
for name in workloads:
    words = [*arguments[name], "-t", str(threads)]
    native, runs, shares = [], [], []
    estimates = {machine: [] for machine in machines}
    full, trace = f"{work}/full.trace", f"{work}/windows.trace"
    record = [homing, "record", "--quiet", "--recorder", "clang"]
    # No two runs are the same: the truth is from the least to the most of several.
    truth = {machine: [] for machine in machines}
    for _ in range(fulls):
        whole = used([*record, "-o", full, "--", f"{work}/pass/{name}", *words])
        for machine in machines:
            truth[machine].append(optimal(full, machine)["mcpr"])
        os.remove(full)
    for seed in range(seeds):
        native.append(used([f"{work}/clang/{name}", *words]))
        runs.append(used([*record, "--windows", windows, "--seed", str(seed), "-o", trace, "--",
                          f"{work}/pass/{name}", *words]))
        info = json.loads(subprocess.run([homing, "trace", "info", "--json", trace], check=True,
                                         capture_output=True, text=True).stdout)
        shares.append(info["window_words"] / (info["window_words"] + info["unseen_words"]))
        for machine in machines:
            estimates[machine].append(optimal(trace, machine)["estimate"]["mcpr"])
    base = [statistics.median(figure) for figure in zip(*native)]
    cpu, wall = [statistics.median(figure) / over for figure, over in zip(zip(*runs), base)]
    for machine in machines:
        exact, found = statistics.median(truth[machine]), estimates[machine]
        errors = [abs(estimate["value"] / exact - 1) for estimate in found]
        halves = [(estimate["high"] - estimate["low"]) / 2 / exact for estimate in found]
        holds = sum(estimate["low"] <= max(truth[machine]) and min(truth[machine]) <= estimate["high"]
                    for estimate in found)
        print(f"| `{name} {' '.join(words)}` | {cpu:.2f}x | {wall:.2f}x | {100 * statistics.median(shares):.1f} % "
              f"| {whole[0] / base[0]:.0f}x | {whole[1] / base[1]:.0f}x | {machine} "
              f"| {exact:.4f} ({min(truth[machine]):.4f} to {max(truth[machine]):.4f}) "
              f"| {100 * statistics.median(errors):.2f} % | {100 * max(errors):.2f} % "
              f"| {100 * statistics.median(halves):.2f} % | {holds} of {seeds} |", flush=True)
