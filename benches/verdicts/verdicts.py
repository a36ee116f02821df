"""The table of verdicts.sh: [NAME...]. HOMING, OUT, SCRATCH and PYTHON are in the environment."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
OUT, SCRATCH = Path(os.environ["OUT"]), Path(os.environ["SCRATCH"])
# Seconds after which a program is given up. `homing why` itself ends what it records after the budget.
PATIENCE = 420
BUDGET = "45s,150M"
ALL_CLEAR = "not-numa"


def words(verdict):
    return {"not-numa": "not NUMA", "not-known": "not known"}.get(verdict, verdict.replace("-", " "))


def missing(program):
    """What a program needs that is not there: names of programs, and of modules as python:NAME."""
    def is_there(need):
        if need.startswith("python:"):
            find = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{need[7:]}'))"
            return subprocess.run([os.environ["PYTHON"], "-c", find], check=False).returncode == 0
        return shutil.which(need) is not None
    return [need for need in program.get("needs", []) if not is_there(need)]


def text(path, mebibytes):
    """A file of made-up words, the same in each run; what is beyond 8 MiB comes again."""
    def chance():
        nonlocal seed
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return seed >> 20
    seed, vocabulary = 1, []
    for _ in range(4096):
        letters = chance()
        vocabulary.append("".join(chr(97 + (letters >> 4 * i) % 16) for i in range(2 + (letters >> 40) % 8)))
    made = []
    size = min(mebibytes, 8) << 20
    while size > 0:
        word = chance()
        made.append(vocabulary[(word >> 20) % 4096] + ("\n" if (word >> 40) % 16 == 0 else " "))
        size -= len(made[-1])
    path.write_text("".join(made) * -(-mebibytes // 8), encoding="ascii")


def finish(process):
    """Ends a process and those that it started."""
    if process and process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def judge(program):
    """The diagnosis of a program, or a string that says why there is none; and seconds."""
    name, begin = program["name"], time.monotonic()
    if lacking := missing(program):
        return f"not installed: {', '.join(lacking)}", 0.0
    if "text" in program and not (SCRATCH / f"text{program['text']}").exists():
        text(SCRATCH / f"text{program['text']}", program["text"])
    environment = os.environ | {"SOURCE": str(HERE), "OMP_NUM_THREADS": "4", "OMP_PROC_BIND": "true"}
    environment |= program.get("environment", {})
    log = open(OUT / f"{name}.log", "w", encoding="utf-8")
    run = {"env": environment, "cwd": SCRATCH, "stderr": log, "start_new_session": True}
    if "build" in program:
        if subprocess.run(["sh", "-c", program["build"]], stdout=log, check=False, timeout=PATIENCE, **run).returncode:
            return "does not build", 0.0
    homing, json_file = os.environ["HOMING"], OUT / f"{name}.json"
    json_file.unlink(missing_ok=True)
    command = [homing, "why", "--json", "--budget", program.get("budget", BUDGET)]
    if "MACHINE" in os.environ:
        command += ["--machine", os.environ["MACHINE"]]
    command = " ".join([*command, *program.get("options", []), "--", program["run"]])
    made = client = None
    with log, open(SCRATCH / "why.json", "wb") as answer:
        try:
            made = subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=answer, stdin=subprocess.DEVNULL, **run)
            if "client" in program:
                client = subprocess.Popen(["sh", "-c", program["client"]], stdout=log, **run)
            status = made.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"no verdict in {PATIENCE} s", time.monotonic() - begin
        finally:
            finish(made)
            finish(client)
    if status not in (0, 5):
        return f"`homing why` ends with {status}", time.monotonic() - begin
    why = json.loads((SCRATCH / "why.json").read_text())
    if failed := [note for note in why["notes"] if note.startswith("the program ended with status")]:
        return failed[0], time.monotonic() - begin
    shutil.copy(SCRATCH / "why.json", json_file)
    return why, time.monotonic() - begin


def row(program, why):
    """The cells of a program's row, and what it counts as."""
    known = program["known"]
    cells = [program["name"], program["language"], program["from"], ", ".join(map(words, known)) or "unknown"]
    if isinstance(why, str):
        return [*cells, why, "", "-"], "none"
    verdict, gain = why["verdict"], [round(100 * why["gain"][end]) for end in ("low", "high")]
    said = words(verdict)
    if verdict == "not-known":
        said += f" ({why['doubt']['reason']})"
    percents = "" if verdict == "not-known" else f"{gain[0]} %" if gain[0] == gain[1] else f"{gain[0]} to {gain[1]} %"
    if not known:
        mark = "no truth: not known" if verdict == "not-known" else "no truth: decided"
    elif verdict == "not-known":
        mark = "not known"
    elif verdict in known:
        mark = "right"
    else:
        mark = "wrong: nothing to do" if verdict == ALL_CLEAR else "wrong"
    shown = {"no truth: not known": "-", "no truth: decided": "-"}.get(mark, mark)
    return [*cells, said, percents, f"**{shown}**" if mark.startswith("wrong") else shown], mark


def main():
    programs = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    chosen = [program for program in programs if not sys.argv[1:] or program["name"] in sys.argv[1:]]
    if unknown := set(sys.argv[1:]) - {program["name"] for program in chosen}:
        sys.exit(f"verdicts.py: no such program in programs.toml: {', '.join(sorted(unknown))}")
    version = subprocess.run([os.environ["HOMING"], "--version"], capture_output=True, text=True, check=True).stdout
    print(f"{version.strip()}, {time.strftime('%Y-%m-%d', time.gmtime())}\n")
    print("| program | language | from | known | verdict | gain | |\n|---|---|---|---|---|---|---|", flush=True)
    marks, begin = [], time.monotonic()
    for program in chosen:
        stored = OUT / f"{program['name']}.json"
        if os.environ.get("RESUME") and stored.exists():
            why, seconds = json.loads(stored.read_text()), 0.0
        else:
            why, seconds = judge(program)
        cells, mark = row(program, why)
        marks.append(mark)
        print(f"| {' | '.join(cells)} |", flush=True)
        print(f"{program['name']}: {seconds:.0f} s", file=sys.stderr)
    ran = [mark for mark in marks if mark != "none"]
    decided = sum("not known" not in mark for mark in ran)
    count = {mark: ran.count(mark) for mark in set(ran)}
    print(f"\n{len(ran)} of {len(chosen)} programs were judged in {(time.monotonic() - begin) / 60:.0f} minutes: "
          f"{count.get('right', 0)} right, {sum(mark.startswith('wrong') for mark in ran)} wrong "
          f"({count.get('wrong: nothing to do', 0)} of them a wrong \"not NUMA\"), "
          f"{count.get('not known', 0)} not known, "
          f"{sum(mark.startswith('no truth') for mark in ran)} whose truth is not known. "
          f"Decided: {decided} of {len(ran)} ({100 * decided / max(len(ran), 1):.0f} %).")


main()
