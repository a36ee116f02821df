#!/usr/bin/env bash
# Is a program ever slower under `homing run` than without balancing and with the kernel's? In the lab, with each miss
# delayed by its latency times DELAY, so that time goes by where pages are and by what an engine takes of the program.
# Prints a table in Markdown of the times of marked sections: for each program, where memory begins (on node 0, on all
# nodes in turn), with bound and free threads, with 4 KiB and with transparent huge pages. Runs stay in OUT as JSON, and
# those that are there are not made again, so that the command can be ended and begun again at any time.
#
#   [OUT=DIR] [STARTS='node0 in-turn'] [THREADS='bound free'] [PAGES='never always'] [PROGRAMS='cg ...'] [REPEATS=N]
#   [TIMES=N] [DELAY=50] benches/never-worse.sh
#
# TIMES=3 gives each program three times its iterations. Without it, programs run for 6 to 13 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} out=${OUT:-$PWD/build/bench-never-worse}
declare -A sizes=([cg]=14000 [mg]=32 [adi]=384 [fft]=65536 [sorbyr]=512)
declare -A iterations=([cg]=130 [mg]=180 [adi]=60 [fft]=9 [sorbyr]=150)
declare -A nodes=([node0]=0 [in-turn]=0,1,2,3)
for program in ${PROGRAMS:-cg mg adi fft sorbyr}; do
  for start in ${STARTS:-node0 in-turn}; do
    for threads in ${THREADS:-bound free}; do
      for pages in ${PAGES:-never always}; do
        file=$out/$start-$threads-$pages/$program.json
        [ ! -s "$file" ] || continue
        mkdir -p "${file%/*}"
        bind=false
        [ "$threads" = free ] || bind=true
        "$homing" lab baseline --topology 4x2 --start-on "${nodes[$start]}" --thp "$pages" --marked \
          --delay="${DELAY:-50}" --repeats "${REPEATS:-1}" --env OMP_PROC_BIND=$bind --env OMP_WAIT_POLICY=passive --timeout 10m --json \
          --contenders start,balancing --with 'homing=homing run --quiet --source hint-faults --bind auto --' \
          -- "build/workloads/$program" -t 8 -n "${sizes[$program]}" -i $((iterations[$program] * ${TIMES:-1})) >"$file.new"
        mv "$file.new" "$file"
      done
    done
  done
done
python3 benches/never_worse.py "$out"
