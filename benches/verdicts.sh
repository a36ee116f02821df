#!/usr/bin/env bash
# How often `homing why` is right: records and judges the programs of benches/verdicts/programs.toml, compares each
# verdict with what is known of the program, and prints a table in Markdown. Some 40 minutes on two cores. Needs
# `make build` and, for all rows, the compilers and programs that the list names; a row says what is not installed.
# A recording ends after 45 s or 150 M references unless the list says more, where `homing why` takes 60 s or 1000 M.
#
#   benches/verdicts.sh                   all programs
#   benches/verdicts.sh NAME...           these alone
#   RESUME=1 benches/verdicts.sh          all, without those whose diagnosis is in OUT already
#
# HOMING=PROGRAM judges with another one than target/release/homing. PYTHON=PROGRAM has numpy, scipy, scikit-learn and
# duckdb [python3]. Diagnoses and what programs print stay in OUT [build/verdicts]. MACHINE=NAME models another machine
# than `homing why` does by itself; what is known of the programs is for two nodes and 64 MiB of caches.
set -euo pipefail
cd "$(dirname "$0")/.."
HOMING=$(realpath "${HOMING:-target/release/homing}")
[ -x "$HOMING" ] || { echo "verdicts.sh: $HOMING: no such program: make build, or HOMING=PROGRAM" >&2; exit 2; }
mkdir -p "${OUT:=build/verdicts}"
OUT=$(realpath "$OUT")
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH" /dev/shm/homing-verdicts' EXIT
export HOMING OUT SCRATCH PYTHON=${PYTHON:-python3}
nice python3 benches/verdicts/verdicts.py "$@"
