#!/bin/sh
# Runs inside the lab, as root: the kernel moves no threads because of the engine's scans. All memory begins on one node, and
# each fault of a scan tells the kernel so, if it listens.
. ./wait.sh
tracing=/sys/kernel/tracing/events/sched
for event in sched_move_numa sched_swap_numa; do echo 1 >$tracing/$event/enable; done

./bands 8 64 3600 free >threads.out & bands=$!
./homing attach --source hint-faults --quiet --journal threads.log --pid $bands 2>threads.err & engine=$!
until_true has_landed threads.log 250 && ok "threads that may run anywhere: $(landed threads.log) pages moved" ||
  not_ok 'threads that may run anywhere' "$(landed threads.log) pages moved" threads.err
kill -TERM $engine
wait $engine
kill -TERM $bands
wait $bands && right threads.out && ok 'data are right' || not_ok 'data are right' "ended with status $?, or wrong data" threads.out
moves=$(grep -c 'sched_\(move\|swap\)_numa:' /sys/kernel/tracing/trace)
[ "$moves" -lt 10 ] && ok "the kernel moved threads to their memory $moves times" ||
  not_ok 'the kernel moves threads to their memory' "$moves times" threads.err
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
