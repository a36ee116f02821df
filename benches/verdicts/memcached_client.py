"""Fills a memcached with 120 MB of values over four connections in turn, reads them at random, and ends it: SOCKET."""
import random
import socket
import sys
import time

VALUES, SIZE, READS, BATCH = 30000, 4000, 60000, 50


def connect(path):
    for _ in range(60):
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            return client.makefile("rwb")
        except OSError:
            time.sleep(1)
    sys.exit(f"memcached_client.py: {path}: nobody answers")


def batch(stream, requests, lines):
    stream.write(b"".join(requests))
    stream.flush()
    for _ in range(lines):
        stream.readline()


connections = [connect(sys.argv[1]) for _ in range(4)]
chance, value = random.Random(1), b"v" * SIZE + b"\r\n"
for first in range(0, VALUES, BATCH):
    sets = [b"set key%d 0 0 %d\r\n%s" % (i, SIZE, value) for i in range(first, first + BATCH)]
    batch(connections[first // BATCH % 4], sets, BATCH)
for turn in range(READS // BATCH):
    # A line each for VALUE, the value, and END.
    gets = [b"get key%d\r\n" % chance.randrange(VALUES) for _ in range(BATCH)]
    batch(connections[turn % 4], gets, 3 * BATCH)
batch(connections[0], [b"shutdown\r\n"], 0)
