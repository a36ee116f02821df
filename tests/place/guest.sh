#!/bin/sh
# Runs inside the lab, as root, on two nodes; all that is not placed is on node 0, where the program runs. Prints a line a
# check, and fails if one fails.
export HOMING_LIB=$PWD
failed=0 checks=0
placed() { # NAME=PLACEMENT EXPECTED: MiB of the grid's halves, of the other array, and of one after it, on nodes 0 and 1
  checks=$((checks + 1))
  out=$(taskset 1 ./homing run --quiet --place "$1" -- ./nodes | cut -d ' ' -f 2- | tr '\n' ' ')
  if [ "$out" = "$2 " ]; then echo "ok $1"; else failed=1; echo "not ok $1: $out: expected $2"; fi
}
line=$1
placed "nodes.c:$line=interleave" '2 2 2 2 8 0 8 0'
placed "new_grid (nodes.c:$line)=blocks" '4 0 0 4 8 0 8 0'
placed 'new_grid=node:1' '0 4 0 4 8 0 8 0'
placed "nodes.c:$line=weighted:0=3,1=1" '3 1 3 1 8 0 8 0'
echo "$checks checks"
exit $failed
