"""Python, numpy, threads: each thread works on its array of 24 MiB, without the interpreter's lock. Planted: the main
thread fills all arrays (with the argument "fixed": each thread makes its own)."""
import sys
import threading

import numpy

THREADS, ROUNDS, LENGTH = 4, 6, 24 << 17


def work(arrays, me, fixed):
    data = numpy.ones(LENGTH) if fixed else arrays[me]
    for turn in range(ROUNDS):
        numpy.multiply(data, 0.5, out=data)
    arrays[me] = data


fixed = sys.argv[1:] == ["fixed"]
arrays = [None if fixed else numpy.ones(LENGTH) for _ in range(THREADS)]
threads = [threading.Thread(target=work, args=(arrays, me, fixed)) for me in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(arrays[1][5])
