# Counts what is in parts of a buffer, a thread for each. Planted: the main thread fills it all (with `own`: each thread
# fills its part).
import sys
import threading

PART, THREADS, ROUNDS = 512 << 10, 4, 100
own = sys.argv[1:] == ["own"]
counts = [0] * THREADS
everything = bytearray() if own else bytearray(b"x" * (PART * THREADS))


def work(me):
    part, first = (bytearray(b"x" * PART), 0) if own else (everything, me * PART)
    for _ in range(ROUNDS):
        counts[me] += part.count(b"y", first, first + PART)


threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(counts)
