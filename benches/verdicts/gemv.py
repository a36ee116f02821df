"""numpy: a matrix of 96 MiB times a vector, ten times."""
import numpy

matrix = numpy.ones((3072, 4096))
vector = numpy.ones(4096)
for turn in range(10):
    vector[:3072] = matrix @ vector * 1e-4
print(vector[5])
