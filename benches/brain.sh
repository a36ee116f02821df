#!/usr/bin/env bash
# Does the live session make a program slower than pages that stay, or than the kernel's balancing? On a corpus, in
# modelled time with all costs of session and kernel charged (docs/monitors.md, "The live session"): no lab, no noise.
# Prints tables in Markdown: the mean time against the better of the two, how many cells are above 1.01, 1.03 and 1.08,
# the worst ten, and what the engine costs.
#
#   benches/brain.sh [--quick] [--seeds N]     60 generated programs a seed; --quick: each fifth
#   RECORD=1 benches/brain.sh                  23 programs of workloads/, recorded short; needs `make build workloads`
#
# A program begins with pages at first touch, on node 0, and on the nodes in turn, on two machines: on four-socket the
# engine has CPUs of its own, on two-socket it takes its time from the program. Recordings stay in OUT (build/brain).
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=${OUT:-$PWD/build/brain} traces=()
if [ -n "${RECORD:-}" ]; then
  mkdir -p "$out"
  while read -r program options; do
    trace=$out/$program.homing
    traces+=("$trace")
    [ ! -s "$trace" ] || continue
    # shellcheck disable=SC2086 # options are words
    "$homing" record --exclude-startup -o "$trace.new" -- "build/workloads/$program" -t 8 $options </dev/null >"$out/$program.log" 2>&1
    # The first command that needs an order makes it and keeps it.
    "$homing" optimal "$trace.new" -m four-socket >>"$out/$program.log" 2>&1
    mv "$trace.new" "$trace"
  done <<'LIST'
adi -n 192 -i 8
adi3 -n 16 -i 8
bsort -n 60000 -i 3
bt -n 8 -i 10
cg -n 3000 -i 40
chase -n 20000 -i 20
cholesky -n 192 -i 4
fft -n 8192 -i 6
gauss -n 160 -i 2
hashserver -n 8192 -i 6
is -n 100000 -i 6
kmerge -n 60000 -i 3
life -n 256 -i 20
lu -n 10 -i 10
matmult -n 110 -i 3
mg -n 32 -i 6
particles -n 20000 -i 3
phases -n 16 -i 10
qsort -n 200000 -i 2
sorbyc -n 256 -i 12
sorbyr -n 256 -i 12
sp -n 12 -i 10
stream -n 60000 -i 8
LIST
fi
exec cargo run --quiet --release --locked -p homing-session --example brain -- "$@" ${traces[@]+"${traces[@]}"}
