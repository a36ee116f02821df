#!/bin/sh
# Runs inside the lab, as root: programs with OpenMP, which know nothing of Homing, have their pages brought home by
# an engine inside of them, and their iterations are found.
export HOMING_LIB=$PWD/lib OMP_NUM_THREADS=8
failed=0
[ $# -gt 0 ] || { echo 'not ok: no compiler has OpenMP'; exit 1; }
for compiler in "$@"; do
  ./homing run --runtime --summary $compiler.json -- ./bands-$compiler 64 40 480 >$compiler.out 2>&1 || failed=1
  cat $compiler.out
  rounds=$(sed -n 's/^bands: \([0-9]*\) rounds.*/\1/p' $compiler.out)
  found=$(sed -n 's/^    "iterations": \([0-9]*\),$/\1/p' $compiler.json)
  # Two rounds make an iteration known.
  if [ "${found:-0}" -ge $((rounds - 4)) ] && [ "$found" -le "$rounds" ]; then echo "ok iterations of $compiler: $found of $rounds"
  else echo "not ok iterations of $compiler: $found of $rounds"; failed=1; fi
  grep -Eq '^  [1-9][0-9]* page moves' $compiler.out || { echo "not ok what $compiler's program moved is not told"; failed=1; }
  # Static data is an area by its name: pages, seen, eligible, moved.
  awk '$1 == "field" && $2 >= 512 && $5 > 0 { found = 1 } END { exit !found }' $compiler.out ||
    { echo "not ok areas of $compiler's program: none is the field"; failed=1; }
  grep -q '"remote_by_area"' $compiler.json || { echo "not ok areas of $compiler by iteration"; failed=1; }
  # Threads go to other nodes, and say so in their regions.
  ./homing run --runtime --policy predictive --set predictive.migration-cost=0 --summary $compiler.json -- \
    ./bands-$compiler 64 40 0 again \
    >$compiler.out 2>&1 || failed=1
  cat $compiler.out
  moved=$(sed -n 's/^    "threads_moved": \([0-9]*\),\{0,1\}$/\1/p' $compiler.json)
  if [ "${moved:-0}" -ge 4 ]; then echo "ok threads of $compiler: $moved moved"
  else echo "not ok threads of $compiler: ${moved:-none} moved"; failed=1; fi
done
exit $failed
