"""scikit-learn: k-means of 96 MiB of samples, two rounds."""
import numpy
from sklearn.cluster import KMeans

samples = numpy.tile(numpy.random.default_rng(1).standard_normal((4096, 16)), (192, 1))
means = KMeans(n_clusters=4, init=samples[:4], n_init=1, max_iter=2, tol=0, copy_x=False).fit(samples)
print(means.inertia_)
