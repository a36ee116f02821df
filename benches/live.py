"""The table of benches/live.sh from the JSON of its runs, DIR/CASE/PROGRAM.json, and with --svg FILE the curves of one case: non-local % of
misses over time, one panel a program, one line a contender. The picture takes its colours from the reader's light or dark scheme."""
import argparse
import json
import pathlib

PANEL, HEIGHT, LEFT, TOP, GAP, COLUMNS = 250, 130, 36, 52, 44, 3
NAMES = {"start": "no balancing", "balancing": "kernel", "fast": "kernel, fast scan", "homing": "homing", "numad": "numad"}
STYLE = """
text { font: 11px sans-serif; fill: #333 } .title { font-weight: bold } .axis { stroke: #999; stroke-width: 1 } .grid { stroke: #ddd; stroke-width: 0.5 }
polyline { fill: none; stroke-width: 1.8 } .start { stroke: #999 } .balancing { stroke: #0b6fc2 } .fast { stroke: #7a52c7 } .numad { stroke: #2b8a3e }
.homing { stroke: #d9480f; stroke-width: 2.4 } .bound { stroke: #333; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #888 } .bound { stroke: #ddd }
.balancing { stroke: #5db0f5 } .fast { stroke: #b197fc } .numad { stroke: #69db7c } .homing { stroke: #ff922b } }
"""


def runs(directory):
    """(case, program, rows), in the order of names."""
    for path in sorted(directory.glob("*/*.json")):
        yield path.parent.name, path.stem, json.loads(path.read_text())["rows"]


def table(directory):
    print("| case | program | contender | non-local % of misses | tail % | static bound % | settled, s | of s | pages moved | hint faults | modelled time |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case, program, rows in runs(directory):
        first = rows[0]["median"]["modelled_ms"]
        for row in rows:
            m = row["median"]
            print(
                f"| {case} | {program} | {NAMES.get(row['contender'], row['contender'])} | {m['nonlocal_percent']:.1f} | {m['tail_percent']:.1f} "
                f"| {m['bound_4k_percent']:.1f} | {m['settled_seconds']:.1f} | {m['seconds']:.0f} | {m['moved_pages']:.0f} | {m['hint_faults']:.0f} "
                f"| {m['modelled_ms'] / first:.3f} |"
            )


def smooth(curve):
    """Some forty means."""
    width = max(1, len(curve) // 40)
    parts = [curve[i : i + width] for i in range(0, len(curve), width)]
    return [(part[-1][0], sum(percent for _, percent in part) / len(part)) for part in parts]


def panel(program, rows, left, top):
    """One program's lines."""
    curves = {row["contender"]: smooth(row["runs"][0]["curve"]) for row in rows}
    seconds = max(curve[-1][0] for curve in curves.values())
    x, y = (lambda t: left + PANEL * t / seconds), (lambda percent: top + HEIGHT * (1 - percent / 100))
    out = [f'<text class="title" x="{left}" y="{top - 8}">{program}</text>']
    for percent in (0, 25, 50, 75, 100):
        out.append(f'<line class="grid" x1="{left}" x2="{left + PANEL}" y1="{y(percent):.1f}" y2="{y(percent):.1f}"/>')
        out.append(f'<text x="{left - 6}" y="{y(percent) + 4:.1f}" text-anchor="end">{percent}</text>')
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if seconds / step <= 6)
    for t in range(0, int(seconds) + 1, step):
        out.append(f'<text x="{x(t):.1f}" y="{top + HEIGHT + 14}" text-anchor="middle">{t}</text>')
    out.append(f'<line class="axis" x1="{left}" x2="{left + PANEL}" y1="{y(0)}" y2="{y(0)}"/>')
    bound = rows[-1]["median"]["bound_4k_percent"]
    out.append(f'<line class="bound" x1="{left}" x2="{left + PANEL}" y1="{y(bound):.1f}" y2="{y(bound):.1f}"/>')
    for name, curve in curves.items():
        points = " ".join(f"{x(t):.1f},{y(percent):.1f}" for t, percent in curve)
        out.append(f'<polyline class="{name}" points="{points}"/>')
    return out


def draw(directory, case, file):
    panels = [(program, rows) for of, program, rows in runs(directory) if of == case]
    lines = -(-len(panels) // COLUMNS)
    width, height = LEFT + COLUMNS * (PANEL + GAP), TOP + lines * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">', f"<style>{STYLE}</style>"]
    out.append(f'<text class="title" x="{LEFT}" y="16">Non-local % of misses over time, in {arguments.unit}</text>')
    left = LEFT
    for name in [row["contender"] for row in panels[0][1]] + ["bound"]:
        text = "best fixed placement (bound)" if name == "bound" else NAMES.get(name, name)
        out.append(f'<polyline class="{name}" points="{left},29 {left + 22},29"/><text x="{left + 27}" y="33">{text}</text>')
        left += 45 + 6 * len(text)
    for number, (program, rows) in enumerate(panels):
        out += panel(program, rows, LEFT + number % COLUMNS * (PANEL + GAP), TOP + 12 + number // COLUMNS * (HEIGHT + GAP))
    file.write_text("\n".join([*out, "</svg>\n"]))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("directory", type=pathlib.Path)
parser.add_argument("--svg", type=pathlib.Path, metavar="FILE")
parser.add_argument("--case", default="node0", help="the case that is drawn [default: node0]")
parser.add_argument("--unit", default="seconds of the virtual machine", help="of the times in curves [default: %(default)s]")
arguments = parser.parse_args()
table(arguments.directory)
if arguments.svg and (arguments.directory / arguments.case).is_dir():
    draw(arguments.directory, arguments.case, arguments.svg)
