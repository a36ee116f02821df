#!/usr/bin/env python3
"""Interval majority (Tikir & Hollingsworth 2008, section 3) as an external policy; standard library only.

    homing simulate app.trace --machine butterfly --policy "external:python3 examples/interval_majority.py"

It takes the same actions as the built-in policy `interval-majority`. The protocol is in docs/external-policy.md.
"""

import json
import sys

FREEZE = 3  # intervals for which a moved page stays


def most(counts, home):
    """The node with the highest count; of equal ones the home, else the lowest number."""
    return min(counts, key=lambda node: (-counts[node], node != home, node))


def main():
    free = {}  # page -> first interval at whose end it may move
    for line in sys.stdin:
        message = json.loads(line)
        counts, homes = {}, {}
        for page, node, reads, writes, weight, home in message.get("samples", []):
            of_page = counts.setdefault(page, {})
            of_page[node] = of_page.get(node, 0) + (reads + writes) * weight
            homes[page] = home
        actions = []
        if message["type"] == "interval_end":
            number = message["number"]
            for page, of_page in counts.items():
                node = most(of_page, homes[page])
                if number >= free.get(page, 0) and node != homes[page]:
                    free[page] = number + 1 + FREEZE
                    actions.append({"page": page, "move": node})
        print(json.dumps({"actions": actions}), flush=True)


if __name__ == "__main__":
    main()
