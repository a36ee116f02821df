#!/usr/bin/env bash
# Beside what else is at hand, in one run on the same small CG: recording against Valgrind's lackey; the trace against the
# same references as 8-byte addresses under zstd, and `zstd -d` on those against the whole way from trace to optimum
# (decoding, page runs, bound). CPU seconds, peak memory of the largest process. Needs `make build`.
#   benches/rivals.sh [arguments of cg]
set -euo pipefail
cd "$(dirname "$0")/.."
source benches/measure.sh
[ $# -gt 0 ] || set -- -n 2000 -i 12
homing=${HOMING:-target/release/homing}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive

make -s -C workloads OUT="$work" "$work/cg"
record=("$homing" record -q -o "$work/t.trace" -- "$work/cg" "$@")
lackey=(valgrind --tool=lackey --trace-mem=yes --log-file="$work/lackey.txt" "$work/cg" "$@")
native=$(cpu "$work/cg" "$@")
recorded=$(cpu "${record[@]}")
text=$(cpu "${lackey[@]}")
"$homing" trace export "$work/t.trace" -o "$work/t.csv"
python3 - "$work/t.csv" "$work/raw" <<'END'
import array, sys
addresses = array.array("Q")
with open(sys.argv[1]) as rows:
    next(rows)
    for row in rows:
        addresses.append(int(row.split(",")[1], 0))
with open(sys.argv[2], "wb") as raw:
    addresses.tofile(raw)
END
zstd -q -3 "$work/raw" -o "$work/raw.zst"
refs=$(($(stat -c %s "$work/raw") / 8))
optimal=("$homing" optimal "$work/t.trace" --machine two-socket --threads-on one-per-node)
size() { stat -c %s "$1"; }
row() { # name, CPU seconds, bytes, MiB
  awk -v name="$1" -v s="$2" -v bytes="$3" -v peak="$4" -v refs="$refs" -v n="$native" 'BEGIN {
    printf "%-34s %9.2f %9.0fx %10.2f %8.3f %8d\n", name, s, s / (n > 0 ? n : 0.001), refs / s / 1e6, bytes / refs, peak }'
}
printf '%d references, native %s s\n%-34s %9s %10s %10s %8s %8s\n' "$refs" "$native" "" "CPU s" native "M refs/s" B/ref peak/MiB
row "homing record" "$recorded" "$(size "$work/t.trace")" "$(peak "${record[@]}")"
row "lackey --trace-mem (no thread ids)" "$text" "$(size "$work/lackey.txt")" "$(peak "${lackey[@]}")"
row "zstd -d, 8-byte addresses" "$(cpu zstd -q -d -f "$work/raw.zst" -o "$work/raw2")" "$(size "$work/raw.zst")" \
  "$(peak zstd -q -d -f "$work/raw.zst" -o "$work/raw2")"
row "homing optimal (decode, runs, bound)" "$(cpu "${optimal[@]}")" "$(size "$work/t.trace")" "$(peak "${optimal[@]}")"
