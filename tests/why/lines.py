"""Counts how often the lines of an area travel, by plain sets, and holds `homing why` against it.

    homing trace export TRACE | lines.py WHY.json AREA NODES    ends with 1 where the counts differ

Threads are on nodes in turn. A line travels to a node that has used it before and does not hold it, or that writes it
while others hold it, too. It brings nothing new unless others wrote some byte that the node asks for since it held the
line last. Nothing is ever dropped for want of room: the area must fit into the caches.
"""
import json
import sys

LINE, PAGE = 64, 4096


class Line:
    """Who holds a line and has used it; for each node, the bytes others wrote, and whether it last came with news."""

    def __init__(self, nodes):
        self.holders, self.users = set(), set()
        self.news = [set() for _ in range(nodes)]
        self.came_with_news = [False] * nodes

    def refer(self, node, touched, write):
        """Whether the line travels for this reference, and then whether it brings something new."""
        fetched = node not in self.holders
        if fetched:
            self.came_with_news[node] = bool(self.news[node] & touched)
            self.news[node] = set()
        alone = self.holders == {node}
        travels = node in self.users and bool(self.holders) and (fetched or (write and not alone))
        self.users.add(node)
        if write:
            self.holders = {node}
            for other in range(len(self.news)):
                if other != node:
                    self.news[other] |= touched
        else:
            self.holders.add(node)
        return travels, self.came_with_news[node]


def count(rows, pages, nodes):
    lines, falsely, truly = {}, 0, 0
    next(rows)
    for row in rows:
        thread, address, size, kind = row.split(",")
        address = int(address, 16)
        if address // PAGE not in pages:
            continue
        node = int(thread) % nodes
        line = lines.setdefault(address // LINE, Line(nodes))
        first = address % LINE
        touched = set(range(first, min(LINE, first + int(size))))
        travels, new = line.refer(node, touched, not kind.startswith("r"))
        truly += travels and new
        falsely += travels and not new
    return falsely, truly


def main(report, name, nodes):
    with open(report) as file:
        areas = json.load(file)["areas"]
    area = next(area for area in areas if name in (area.get("name") or ""))
    assert area["timeline"]["pages_per_cell"] == 1, "the area has too many pages to be counted"
    pages = {int(cell, 16) // PAGE for cell in area["timeline"]["cells"]}
    counted = count(iter(sys.stdin), pages, int(nodes))
    found = area["lines"]["falsely"], area["lines"]["truly"]
    print(f"; lines travelled {found[0]} times with nothing new and {found[1]} with something new, counted {counted}", end="")
    return 0 if found == counted and sum(counted) > 1000 else 1


sys.exit(main(*sys.argv[1:]))
