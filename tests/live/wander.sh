#!/bin/sh
# Runs inside the lab, as root: threads that wander are told; `--bind auto` keeps them, and lets them go at the end and after a kill.
. ./wait.sh

./wander 4 3600 >wander.out & program=$!
until_true grep -q ready wander.out
# CPUs that the threads but main may use, a line for each.
may_use() { for t in /proc/$program/task/*; do [ "${t##*/}" = "$program" ] || sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status"; done; }
all=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$program/status)
# On a node that is a pair: 0-1, 2-3 and so on.
kept() { [ "$(may_use | grep -cx '0-1\|2-3\|4-5\|6-7')" = 4 ]; }
# The program itself binds a thread to one CPU for a moment when it sends it on.
free() { [ "$(may_use | grep -cx "$all")" = 4 ]; }

./homing attach --source hint-faults --pid $program --for 12s --summary told.json 2>told.err
grep -q -- '--bind auto keeps such threads' told.err && ok 'threads that wander are told' || not_ok 'threads that wander are told' 'not told' told.err
until_true free && ok 'and left alone' || not_ok 'and left alone' "$(may_use)" told.err

./homing attach --source hint-faults --quiet --pid $program --bind auto --summary kept.json 2>kept.err & engine=$!
until_true kept && ok 'they are kept' || not_ok 'they are kept' "$(may_use)" kept.err
[ "$(may_use | sort | uniq | wc -l)" -ge 2 ] && ok 'on several nodes' || not_ok 'on several nodes' "$(may_use)" kept.err
kill -TERM $engine
wait $engine
until_true free && grep -q '"kept": [4-9]' kept.json && ok 'and let go at the end' || not_ok 'and let go at the end' "$(may_use)" kept.json

./homing attach --source hint-faults --quiet --pid $program --bind auto 2>killed.err & engine=$!
until_true kept
kill -9 $engine
wait $engine 2>/dev/null
until_true kept && ok 'a killed engine leaves them there' || not_ok 'a killed engine leaves them there' "$(may_use)" killed.err
./homing doctor --restore >restored.out 2>&1
until_true free && ok 'homing doctor --restore lets them go' || not_ok 'homing doctor --restore' "$(may_use)" restored.out

kill -TERM $program
wait $program

# `homing run` keeps them where it is told to.
for how in auto default; do
  timeout 60 ./homing run --quiet --source hint-faults $([ $how = default ] || echo --bind $how) --summary $how.json -- timeout 12 ./wander 4 3600 >run.out 2>run.err
done
grep -q '"kept": [1-9]' auto.json && ok 'homing run --bind auto keeps them' || not_ok 'homing run --bind auto' "$(grep kept auto.json)" run.err
grep -q '"kept": 0' default.json && ok 'homing run binds no thread by default' || not_ok 'homing run' "$(grep kept default.json)" run.err
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
