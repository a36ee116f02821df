"""Checks what tests/workloads_record.sh recorded and computed for one program.

    workloads_record.py DIRECTORY RECORDER PROGRAM THREADS
"""

import json
import re
import sys
from pathlib import Path

WORDS_A_PAGE = 512
# Marks in an iteration: its end, and the starts of its phases.
MARKS = {"cg": 1, "sorbyr": 1, "phases": 1, "qsort": 1, "pingpong": 0, "bt": 6, "sp": 10}


def load(path):
    return json.loads(path.read_text())


def expect(condition, what):
    if not condition:
        sys.exit(f"workloads_record: {recorder}: {program}: {what}")


def check_info(info, threads):
    expect(info["references"] > 0, f"no references: {info}")
    expect(info["reads"] + info["writes"] == info["references"], f"reads and writes are not all references: {info}")
    expect(info["threads"] == threads, f"{info['threads']} threads in the trace, expected {threads}")
    expect(info["complete"] is True, "the trace is not complete")
    expect(info["recorder"] == recorder, f"recorder is {info['recorder']}")
    expect(info["bytes"] > 0 and info["pages"] > 0, f"empty: {info}")


def check_rows(rows, optimal, info):
    expect(len(rows) > 5, f"only {len(rows)} policies compared")
    for row in rows:
        name = row["policy"]
        expect(row["gap_percent"] >= -1e-9, f"{name} is below the optimum: {row}")
        expect(row["references"] == info["references"], f"{name} was charged {row['references']} references")
        expect(row["local"] + row["remote"] + row["global"] == row["references"], f"{name} lost references: {row}")
        expect(row["optimal_cost"] == optimal["cost"], f"{name} was measured against another optimum: {row}")
    by_name = {row["policy"]: row for row in rows}
    for name in ("optimal", "first-touch", "homing"):
        expect(name in by_name, f"no row for {name}")
    expect(abs(by_name["optimal"]["gap_percent"]) < 1e-9, f"the optimum has a gap: {by_name['optimal']}")


def check_oracle(result, report, pages, visits, threads):
    """The closed forms at the head of phases.c and pingpong.c: each of `pages` has `visits` runs by changing nodes,
    and the best is to follow them."""
    expected = int(re.search(r" references=(\d+)", result).group(1))
    expect(int(re.search(r" pages=(\d+)", result).group(1)) == pages, f"the program has other pages: {result}")
    trace, machine = report["traces"][0], report["machine"]
    found = sum(n == expected // pages for n in trace["page_map"]["references"])
    expect(found >= pages, f"{found} pages have {expected // pages} references, expected {pages}")
    cost = expected + pages * (visits - 1) * machine["page_move"]
    migratory = next(row for row in trace["sharing"] if row["class"] == "migratory")
    expect(migratory["pages"] >= pages, f"{migratory['pages']} migratory pages, expected {pages} or more")
    ratio = migratory["optimal_cost"] / cost
    expect(0.999 < ratio < 1.05, f"migratory pages cost {migratory['optimal_cost']}, expected {cost}")
    moves = next(row for row in trace["rows"] if row["policy"] == "optimal")["moves"]
    expect(moves >= pages * (visits - 1), f"{moves} moves, expected at least {pages * (visits - 1)}")


def main(directory, threads):
    def path(kind):
        return directory / f"{recorder}-{program}.{kind}"

    result = path("result").read_text()
    expect(" check=ok " in result, f"the recorded program failed: {result}")
    info, report = load(path("info.json")), load(path("compare.json"))
    check_info(info, threads)
    check_rows(report["traces"][0]["rows"], load(path("optimal.json")), info)
    iterations = int(re.search(r" iterations=(\d+)", result).group(1))
    size = int(re.search(r" size=(\d+)", result).group(1))
    marks = info["events"].get("mark", 0)
    expect(marks == iterations * MARKS[program], f"{marks} marks in {iterations} iterations")
    if program == "phases":
        check_oracle(result, report, size * threads, iterations, threads)
    if program == "pingpong":
        check_oracle(result, report, size, iterations, threads)
    print(f"workloads_record: {recorder}: {program}: {info['references']} references, {info['bytes']} bytes, ok")


if __name__ == "__main__":
    recorder, program = sys.argv[2:4]
    main(Path(sys.argv[1]), int(sys.argv[4]))
