//! Nothing: the benchmarks are in `micro/`.
