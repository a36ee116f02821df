"""Checks what `homing why` says of processes of the lab: `verdict.py WHY POOL SWINGS GROUP`, four files with its JSON.

WHY: tests/live/away.c, whose array is on node 0 and which node 2 uses. POOL: tests/live/pool.c, the same of pages that cannot
move. SWINGS: tests/live/swings.c, whose pages two nodes use at random while the kernel balances. GROUP: a cgroup with three processes of away.c on nodes 1 to 3; the last ended while it was sampled.
"""

import json
import sys


def used_by(area):
    """The node that uses an area most, if it has nearly all its samples."""
    references = area["references_by_node"]
    user = references.index(max(references))
    return user if references[user] > 0.9 * sum(references) else None


def home(area):
    """As used_by, of where its pages are."""
    pages = area["pages_on_node"]
    node = pages.index(max(pages))
    return node if pages[node] > 0.9 * sum(pages) else None


away, pool, swings, group = (json.load(open(path)) for path in sys.argv[1:5])
area, held = away["areas"][0], pool["areas"][0]
arrays = [area for area in group["areas"] if (area["name"] or "").endswith(": array")]
checks = {
    "the array comes first": area["name"] == "array",
    "it is on node 0": home(area) == 0,
    "node 2 uses it": used_by(area) == 2,
    "the verdict": away["verdict"] == "initialised-by-one-thread",
    "the basis": away["basis"].startswith("Sampled on this machine by source hint-faults"),
    "what looking took": any(parameter["name"] == "own-cpu-percent" for parameter in away["parameters"]),
    "pages that cannot move": pool["verdict"] == "unmovable",
    "no better places for pages that the kernel moves": swings["verdict"] in ("not-numa", "balancing-costs"),
    "who uses them": sum(count > 0 for count in swings["areas"][0]["references_by_node"]) == 2,
    "what a page fault takes": any(p["name"] == "minor-fault-seconds" for p in swings["parameters"]),
    "all its pages, by those that were followed": 16000 < swings["areas"][0]["pages"] < 17000,
    "part of its pages is followed": any(" was followed, since 4096 tell enough" in note for note in swings["notes"]),
    "they are on node 0, and node 2 uses them": (home(held), used_by(held)) == (0, 2),
    "the cgroup's arrays, each with its process": len({area["name"] for area in arrays}) == 3,
    "all on node 0": all(home(area) == 0 for area in arrays),
    "each used by its own node": sorted(used_by(area) or 0 for area in arrays) == [1, 2, 3],
    "the process that ended": any(note.startswith("1 process ended meanwhile (") for note in group["notes"]),
}
failed = [name for name, holds in checks.items() if not holds]
for report in (away, pool, swings, group):
    print(f"why: {report['sentence']} {report['basis']}")
if failed:
    print(json.dumps({key: swings[key] for key in ("verdict", "areas", "parameters", "notes", "sampled", "at_most")}, indent=1))
    sys.exit(f"not as expected: {', '.join(failed)}\n{json.dumps([away['areas'], pool['areas'], group['areas']], indent=1)}")
