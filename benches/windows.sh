#!/usr/bin/env bash
# Recording in windows beside recording everything, for CG-, IS- and MG-like workloads: CPU time (user + system, of the
# program and homing together, with the merge) and time as multiples of the native run; what share of the program the
# windows hold; and how far the bound that is estimated from them lies from that of the full trace, on two machines.
# Needs `make build workloads` and clang's pass.
#
#   [SEEDS=5] [THREADS=2] [WINDOWS=5ms/100ms] benches/windows.sh [WORKLOAD...]
#   WHAT=policies ... benches/windows.sh [WORKLOAD...]     what `compare` says of windows and of all instead
#
# Native runs take 1 to 2 seconds. The full traces, FULL of them [3], are of other runs of the same program: errors are
# those to the median of their bounds, and an interval holds the truth if it meets their range.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- cg is mg
for name in "$@"; do
  make -s -C workloads OUT="$work/clang" CC="clang-$(cat build/clang/version)" "$work/clang/$name"
  make -s -C workloads OUT="$work/pass" CC="$homing cc" CFLAGS="-O2 -g" "$work/pass/$name"
done
case ${WHAT:-bound} in
  bound) table=windows ;;
  policies) table=windows_policies ;;
  *) echo "windows.sh: WHAT=$WHAT: expected bound or policies" >&2; exit 2 ;;
esac
OMP_WAIT_POLICY=passive python3 "benches/$table.py" "$homing" "$work" "$@"
