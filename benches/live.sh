#!/usr/bin/env bash
# The live engine against the kernel's balancing in the lab (4x2, 4 KiB pages): six programs whose memory begins on one node (START=0), or
# on all in turn (START=0,1,2,3). Prints a table in Markdown; the runs stay in OUT as JSON, and those that are there are not made again.
#
#   OUT=DIR START=NODES CONTENDERS=LIST PROGRAMS='cg mg ...' benches/live.sh
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing} start=${START:-0} contenders=${CONTENDERS:-start,balancing,fast}
out=${OUT:-$PWD/build/bench-live-$start}
declare -A arguments=(
  [cg]="-n 14000 -i 300" [mg]="-n 32 -i 100" [adi]="-n 384 -i 60" [fft]="-n 65536 -i 20" [sorbyr]="-n 512 -i 100" [hashserver]="-n 131072 -i 6"
)
mkdir -p "$out"
for name in ${PROGRAMS:-cg mg adi fft sorbyr hashserver}; do
  [ -s "$out/$name.json" ] && continue
  # shellcheck disable=SC2086
  "$homing" lab baseline --topology 4x2 --start-on "$start" --thp never --marked --env OMP_PROC_BIND=true --env OMP_WAIT_POLICY=passive \
    --contenders "$contenders" --with 'homing=homing run --quiet --source hint-faults --' --json \
    -- "build/workloads/$name" -t 8 ${arguments[$name]} >"$out/$name.new"
  mv "$out/$name.new" "$out/$name.json"
done
python3 benches/live.py "$out"
