#!/bin/sh
# Runs inside the lab: two programs at the same time. Each begins with a thread for each CPU; when its fourth iteration ends
# it goes on with four threads, the first on nodes 0 and 1, the second on nodes 2 and 3.
MARKS=$PWD/times.1 MARKS_PROGRAM=${1##*/} MARKS_SHARE=4:0,1,3,4 "$1" -n 20 -i 20 --init parallel &
first=$!
MARKS=$PWD/times.2 MARKS_PROGRAM=${2##*/} MARKS_SHARE=4:6,7,9,10 "$2" -n 20 -i 20 --init parallel
second=$?
wait $first && exit $second
