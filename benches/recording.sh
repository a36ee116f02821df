#!/usr/bin/env bash
# Recording, the whole table in one run: for CG-, IS- and MG-like workloads the CPU time (user + system, of the program, Valgrind and
# homing together) and the time of each way to run them, as multiples of the native run of the same compiler; with and without what a
# run of next to nothing takes (`start`); bytes a reference; peak memory of homing. `none` is Valgrind's own tool that does nothing,
# `inert` a recompiled program that nobody records. Needs `make build workloads`.
#
#   [RUNS=3] [THREADS=2] [SCALE=1] benches/recording.sh [WORKLOAD...]
#
# SCALE 1 is some 10^8 references a run; times are medians of RUNS runs, all ways in turn.
#
#   OTHERS=DIR benches/recording.sh    other programs than those of workloads/, with a line of geometric means
#
# DIR/programs.json has their arguments, long and short: {"lulesh": [["-s", "12", "-i", "60"], ["-s", "2", "-i", "1"]]}; they are
# built in DIR/gcc, DIR/clang and, with `homing cc`, DIR/pass, and take OMP_NUM_THREADS from THREADS.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table=$PWD/benches/recording.py
export OMP_WAIT_POLICY=passive
# What programs leave behind goes with the folder that they run in.
if [ -n "${OTHERS:-}" ]; then
  others=$(realpath "$OTHERS")
  cd "$work"
  python3 "$table" "$homing" "$others"
  exit
fi
[ $# -gt 0 ] || set -- cg is mg
for name in "$@"; do
  make -s -C workloads OUT="$work/gcc" "$work/gcc/$name"
  make -s -C workloads OUT="$work/tsan" CFLAGS="-O2 -g $("$homing" cflags)" LDLIBS="$("$homing" ldflags)" "$work/tsan/$name"
  if [ -e build/clang/version ]; then
    make -s -C workloads OUT="$work/clang" CC="clang-$(cat build/clang/version)" "$work/clang/$name"
    make -s -C workloads OUT="$work/pass" CC="$homing cc" CFLAGS="-O2 -g" "$work/pass/$name"
  fi
done
cd "$work"
python3 "$table" "$homing" "$work" "$@"
