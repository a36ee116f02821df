#!/usr/bin/env bash
# All benchmarks, one table after the other; docs/benchmarks.md holds their figures. Takes some ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== recording (CPU time as a multiple of native)"
benches/recording.sh
echo "== beside lackey and zstd"
benches/rivals.sh
echo "== traces: encoding, decoding, size"
cargo bench -q -p homing-benches --bench trace
echo "== page runs"
cargo bench -q -p homing-benches --bench history
echo "== optimum"
cargo bench -q -p homing-benches --bench optimal
echo "== caches, beside Cachegrind and pycachesim"
benches/hierarchy.sh
