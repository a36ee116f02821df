#!/usr/bin/env bash
# The live engine beside the kernel's balancing and numad in the lab: one command makes all runs of the table, or those of some CASES and
# PROGRAMS. Prints a table in Markdown and draws non-local % over time; the runs stay in OUT as JSON, and those that are there are not
# made again, so that the command can be ended and begun again at any time.
#
#   [OUT=DIR] [CASES='node0 huge ...'] [PROGRAMS='cg mg ...'] [CONTENDERS=LIST] [REPEATS=N] benches/live.sh
#
# node0        memory begins on one node, as after an initialisation by one thread; 4 KiB pages, 4 nodes of 2 CPUs
# round-robin  ... on all nodes in turn
# huge         as node0, with transparent huge pages always on
# six-boards   as node0, on six nodes of 2 CPUs
# large        as node0, with footprints of 256 MB and more
# numad        as large, for numad, which takes no smaller processes
# gigabytes    as large, with 2 GiB, on a machine of 14 GiB; not among the cases unless asked for
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=${OUT:-$PWD/build/bench-live}
declare -A arguments=(
  [cg]="-n 14000 -i 1200" [mg]="-n 32 -i 400" [adi]="-n 384 -i 240" [fft]="-n 65536 -i 80" [sorbyr]="-n 512 -i 400" [hashserver]="-n 131072 -i 24"
)
declare -A gigabytes=([stream]="-n 90000000 -i 12")
declare -A large=([stream]="-n 12000000 -i 40" [sorbyr]="-n 6000 -i 8" [hashserver]="-n 8388608 -i 3")
declare -A machine=([six-boards]="--topology six-boards" [gigabytes]="--nodes 4 --cpus 8 --mem 14G") start=([round-robin]=0,1,2,3) thp=([huge]=always) contenders=([numad]=start,numad) threads=([six-boards]=12)

# one CASE PROGRAM ARGUMENTS: all contenders, into OUT/CASE/PROGRAM.json.
one() {
  local file=$out/$1/$2.json
  [ ! -s "$file" ] || return 0
  mkdir -p "$out/$1"
  # shellcheck disable=SC2086
  "$homing" lab baseline ${machine[$1]:---topology 4x2} --start-on "${start[$1]:-0}" --thp "${thp[$1]:-never}" --marked --repeats "${REPEATS:-1}" \
    --env OMP_PROC_BIND=true --env OMP_WAIT_POLICY=passive --timeout 40m --json \
    --contenders "${CONTENDERS:-${contenders[$1]:-start,balancing,fast}}" --with 'homing=homing run --quiet --source hint-faults --bind auto --' \
    -- "build/workloads/$2" -t "${threads[$1]:-8}" $3 >"$file.new"
  mv "$file.new" "$file"
}

for case in ${CASES:-node0 round-robin huge six-boards large numad}; do
  case $case in
  large | numad) programs=${PROGRAMS:-stream sorbyr hashserver} ;;
  gigabytes) programs=stream ;;
  *) programs=${PROGRAMS:-cg mg adi fft sorbyr hashserver} ;;
  esac
  for name in $programs; do
    case $case in
    large | numad) one "$case" "$name" "${large[$name]}" ;;
    gigabytes) one "$case" "$name" "${gigabytes[$name]}" ;;
    *) one "$case" "$name" "${arguments[$name]}" ;;
    esac
  done
done
python3 benches/live.py "$out" --svg "$out/live.svg"
