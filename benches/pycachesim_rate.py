"""Feeds the references of a CSV trace to pycachesim and writes its rate in million references a second of CPU time."""
import csv
import sys
import time

from cachesim import Cache, CacheSimulator, MainMemory

memory = MainMemory()
last = Cache("L2", 1024, 16, 64, "LRU")
memory.load_to(last)
memory.store_from(last)
first = Cache("L1", 64, 8, 64, "LRU", store_to=last, load_from=last)
simulator = CacheSimulator(first, memory)

with open(sys.argv[1]) as file:
    rows = csv.DictReader(file)
    references = [(int(row["addr"], 0), int(row["size"]), row["kind"] == "w") for row in rows]
begin = time.process_time()
for address, size, write in references:
    if write:
        simulator.store(address, length=size)
    else:
        simulator.load(address, length=size)
seconds = time.process_time() - begin
with open(sys.argv[2], "w") as out:
    out.write(f"{len(references) / seconds / 1e6}\n")
