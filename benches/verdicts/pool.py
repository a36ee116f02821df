"""Python, multiprocessing: four processes, 24 MiB each. Planted: the parent fills one shared memory of 96 MiB, of which
each process works on a quarter (with the argument "own": each has an array of its own)."""
import multiprocessing
import sys
from multiprocessing import shared_memory

import numpy

PROCESSES, ROUNDS, LENGTH = 4, 6, 24 << 17


def work(name, me):
    shared = name and shared_memory.SharedMemory(name)
    data = numpy.frombuffer(shared.buf)[me * LENGTH:(me + 1) * LENGTH] if shared else numpy.ones(LENGTH)
    for turn in range(ROUNDS):
        numpy.multiply(data, 0.5, out=data)
    print(data[5])
    del data
    if shared:
        shared.close()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    shared = None if sys.argv[1:] == ["own"] else shared_memory.SharedMemory(create=True, size=8 * PROCESSES * LENGTH)
    if shared:
        numpy.frombuffer(shared.buf)[:] = 1.0
    workers = [multiprocessing.Process(target=work, args=(shared and shared.name, me)) for me in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if shared:
        shared.close()
        shared.unlink()
