"""Checks what `homing why --pid` says of tests/live/away.c: its array is on one node, and another node uses it."""

import json
import sys

report = json.load(open(sys.argv[1]))
area = report["areas"][0]
references, pages = area["references_by_node"], area["pages_on_node"]
home, user = pages.index(max(pages)), references.index(max(references))
checks = {
    "the array comes first": area["name"] == "array",
    "it is on node 0": home == 0 and pages[0] > 0.9 * sum(pages),
    "node 2 uses it": user == 2 and references[2] > 0.9 * sum(references),
    "the verdict": report["verdict"] == "initialised-by-one-thread",
    "the basis": report["basis"].startswith("Sampled on this machine by source hint-faults"),
    "what looking took": any(parameter["name"] == "own-cpu-percent" for parameter in report["parameters"]),
}
failed = [name for name, holds in checks.items() if not holds]
print(f"why: {report['sentence']} {report['basis']}")
if failed:
    sys.exit(f"not as expected: {', '.join(failed)}\n{json.dumps(area, indent=1)}")
