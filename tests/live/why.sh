#!/bin/sh
# Runs inside the lab: `homing why` of a process whose array is on node 0 and whose thread is on another node. Nothing may move.
. ./wait.sh
./away 4 >away.out & away=$!
until_true grep -q ready away.out || { echo 'away does not begin'; exit 1; }
everywhere() { for node in 0 1 2 3; do pages_on $node $away; done | tr '\n' ' '; }
before=$(everywhere)
./homing why --pid $away --seconds 20 --source hint-faults --json >why.json 2>why.err & why=$!
ended() { ! kill -0 $why 2>/dev/null; }
until_true ended || {
  echo "homing why does not end; its threads, and those of the process:"
  for thread in /proc/$why/task/* /proc/$away/task/*; do
    grep -E '^(Name|State|TracerPid|SigPnd)' $thread/status; cat $thread/wchan $thread/syscall; echo
  done
  cat why.err
  exit 1
}
wait $why || { cat why.err; exit 1; }
after=$(everywhere)
kill -TERM $away
wait $away || { echo "away ended with status $?"; exit 1; }
[ "$before" = "$after" ] && echo "ok why: no page moved, on nodes 0 to 3: $after" || { echo "not ok why: pages by node were $before, are $after"; exit 1; }
