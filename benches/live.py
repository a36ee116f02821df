"""The table of benches/live.sh from the JSON of its runs in a directory."""
import json
import pathlib
import sys

print("| program | contender | non-local % of misses | tail % | static bound % | settled, s | of s | pages moved | hint faults | modelled time |")
print("|---|---|---|---|---|---|---|---|---|---|")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    rows = json.loads(path.read_text())["rows"]
    first = rows[0]["median"]["modelled_ms"]
    for row in rows:
        m = row["median"]
        print(
            f"| {path.stem} | {row['contender']} | {m['nonlocal_percent']:.1f} | {m['tail_percent']:.1f} | {m['bound_4k_percent']:.1f} "
            f"| {m['settled_seconds']:.1f} | {m['seconds']:.0f} | {m['moved_pages']:.0f} | {m['hint_faults']:.0f} | {m['modelled_ms'] / first:.3f} |"
        )
