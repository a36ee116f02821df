"""Does spreading a table pay where memories have load? The observer's COUNTS of a run without the engine, and of one with it."""
import json
import sys

alone, spread = (json.load(open(name)) for name in sys.argv[1:])


def wait(counts):
    """What a miss waits for others, in nanoseconds."""
    by_node = [sum(column) for column in zip(*counts["misses"])]
    return sum(ns * misses for ns, misses in zip(counts["mean_wait_ns"], by_node)) / sum(by_node)


def rate(counts):
    """Misses in an interval, the median of the last third: once pages are where they stay."""
    rates = [sum(map(sum, part["misses"])) for part in counts["intervals"]][:-1]
    last = sorted(rates[-len(rates) // 3 :])
    return last[len(last) // 2]


print(f"waits of a miss: {wait(alone):.1f} ns, spread {wait(spread):.1f} ns")
print(f"misses a second: {rate(alone)}, spread {rate(spread)}")
sys.exit(wait(spread) > 0.5 * wait(alone) or rate(spread) < 1.05 * rate(alone))
