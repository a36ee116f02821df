"""The table of recording.sh: HOMING WORK WORKLOAD..., with programs in WORK/gcc, WORK/tsan, WORK/clang and WORK/pass. Without
workloads it is of those in WORK/programs.json."""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

homing, work, workloads = sys.argv[1], sys.argv[2], sys.argv[3:]
runs, threads, scale = (int(os.environ.get(name, default)) for name, default in [("RUNS", 3), ("THREADS", 2), ("SCALE", 1)])
trace = "bench.trace"
# Arguments of some 10^8 references, and of next to none.
arguments = {"cg": (["-n", "14000", "-i", str(125 * scale)], ["-n", "64", "-i", "1"]),
             "is": (["-i", str(61 * scale)], ["-n", "64", "-i", "1"]),
             "mg": (["-n", "64", "-i", str(6 * scale)], ["-n", "8", "-i", "1"]),
             "chase": (["-i", str(1500 * scale)], ["-n", "64", "-i", "1"])}
arguments = {name: [[*words, "-t", str(threads)] for words in both] for name, both in arguments.items()}
if not workloads:
    with open(f"{work}/programs.json") as file:
        arguments = json.load(file)
    workloads = list(arguments)
    os.environ["OMP_NUM_THREADS"] = str(threads)


def ways(name):
    """Each way to run a workload: its name, whose native run it is compared with, and what comes before its arguments."""
    built = {kind: f"{work}/{kind}/{name}" for kind in ("gcc", "tsan", "clang", "pass")}
    record = [homing, "record", "--quiet", "-o", trace]
    rows = [("native gcc", "native gcc", [built["gcc"]]),
            ("valgrind, none", "native gcc", ["valgrind", "-q", "--tool=none", "--fair-sched=yes", built["gcc"]]),
            ("valgrind", "native gcc", [*record, "--", built["gcc"]]),
            ("valgrind, line filter", "native gcc", [*record, "--filter", "line", "--", built["gcc"]])]
    if os.path.exists(built["tsan"]):
        rows += [("tsan, inert", "native gcc", [built["tsan"]]),
                 ("tsan", "native gcc", [*record, "--recorder", "tsan", "--", built["tsan"]])]
    if os.path.exists(built["pass"]):
        rows += [("native clang", "native clang", [built["clang"]]),
                 ("clang, inert", "native clang", [built["pass"]]),
                 ("clang", "native clang", [*record, "--recorder", "clang", "--", built["pass"]])]
    return rows


def used(command):
    """CPU seconds, seconds, and MiB of the largest process of a command."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    if status != 0:
        sys.exit(f"recording.py: {' '.join(command)}: ended with {os.waitstatus_to_exitcode(status)}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, usage.ru_maxrss / 1024


factors = {}
for name in workloads:
    long, short = arguments[name]
    rows, seen, starts, traces = ways(name), {}, {}, {}
    for _ in range(runs):
        for way, _, command in rows:
            seen.setdefault(way, []).append(used(command + long))
            if command[0] == homing:
                info = subprocess.run([homing, "trace", "info", "--json", trace], check=True, stdout=subprocess.PIPE)
                traces[way] = json.loads(info.stdout)
            starts.setdefault(way, []).append(used(command + short))
    median = {way: [statistics.median(column) for column in zip(*runs_of)] for way, runs_of in seen.items()}
    start = {way: [statistics.median(column) for column in zip(*runs_of)] for way, runs_of in starts.items()}
    print(f"\n`{name} {' '.join(long)}`, medians of {runs} runs:\n")
    print("| way | CPU s | CPU | CPU without start | time | start s | references | bytes a reference | peak MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for way, base, _ in rows:
        (cpu, wall, peak), (start_cpu, start_wall, _) = median[way], start[way]
        base_cpu, base_wall, _ = median[base]
        info = traces.get(way)
        factors.setdefault(way, []).append((cpu - start_cpu) / (base_cpu - start[base][0]))
        of_trace = f"{info['references'] / 1e6:.0f} M | {info['bytes'] / info['references']:.3f}" if info else " | "
        print(f"| {way} | {cpu:.2f} | {cpu / base_cpu:.1f}x | {(cpu - start_cpu) / (base_cpu - start[base][0]):.1f}x |"
              f" {wall / base_wall:.1f}x | {start_wall:.2f} | {of_trace} | {peak:.0f} |")

if len(workloads) > 1:
    print("\nCPU without start, geometric means of all:")
    for way, each in factors.items():
        print(f"  {way}: {statistics.geometric_mean(each):.1f}x")
