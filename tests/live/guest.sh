#!/bin/sh
# Runs inside the lab, as root: attach, memory policies, two engines, kill -9, evacuation of a cgroup, churn, a thousand threads.
# Each check prints a line `ok NAME` or `not ok NAME: why`.
passed=0 failed=0
ok() { echo "ok $1"; passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2"; failed=$((failed + 1)); [ -f "$3" ] && sed 's/^/    /' "$3"; }
moved() { sed -n 's/^ *"pages_moved": \([0-9]*\),*/\1/p' "$1"; }
# bands 8 64 N: 512 pages begin on node 0, three quarters of which are at home elsewhere.
enough=340
tunables() { cat /proc/sys/kernel/numa_balancing /sys/kernel/debug/sched/numa_balancing/*; }
# run NAME SUMMARY COMMAND...: the command's own result must be right and its pages must have moved.
judge() {
  if ! grep -q ' wrong=0$' "$2"; then not_ok "$1" "wrong data" "$2"
  elif [ "$(moved "$3" || echo 0)" -lt $enough ]; then not_ok "$1" "$(moved "$3") pages moved, expected $enough" "$3"
  else ok "$1: $(moved "$3") pages moved"; fi
}

./bands 8 64 16 >attach.out & bands=$!
sleep 2
./homing attach --source hint-faults --quiet --summary attach.json --pid $bands 2>attach.err || cat attach.err
wait $bands
judge attach attach.out attach.json

./homing run --source hint-faults --quiet --summary policy.json -- ./numa interleave ./bands 8 64 12 >policy.out 2>policy.err || cat policy.err
judge 'program under a memory policy' policy.out policy.json

before=$(tunables)
./bands 8 64 30 >killed.out & bands=$!
for wait in 0.3 1.1 2.3 3.7; do
  ./homing attach --source hint-faults --quiet --pid $bands 2>killed.err & engine=$!
  sleep $wait
  if [ $wait = 2.3 ]; then
    ./homing attach --for 1s --pid $bands >second.out 2>&1
    grep -q 'another session.*going on with page-faults' second.out && ok 'a second engine goes on with another source' || not_ok 'second engine' 'no message' second.out
    ./homing doctor --restore >restore.out 2>&1 && not_ok 'doctor --restore' 'did not respect the lock' restore.out || ok 'doctor --restore leaves a running session alone'
  fi
  kill -9 $engine
  wait $engine 2>/dev/null
done
[ "$(tunables)" = "$before" ] && echo "(the tunables were as before already)"
./homing doctor --restore >restore.out 2>&1
[ "$(tunables)" = "$before" ] && ok 'doctor --restore after kill -9' || not_ok 'doctor --restore after kill -9' 'tunables differ' restore.out
wait $bands
grep -q ' wrong=0$' killed.out && ok 'the program goes on after kill -9, four times' || not_ok 'kill -9' 'wrong data' killed.out

group=/sys/fs/cgroup/taken
mkdir $group
sh -c "echo \$\$ >$group/cgroup.procs; exec ./bands 8 64 14" >evacuated.out & bands=$!
sleep 3
cpus() { for task in /proc/$bands/task/*; do sed -n 's/^Cpus_allowed_list:\t//p' $task/status; done | sort | tr '\n' ' '; }
anonymous_on_0() { sed -n 's/.* anon=.* N0=\([0-9]*\).*/\1/p' /proc/$bands/numa_maps | awk '{ n += $1 } END { print n + 0 }'; }
had=$(cpus) was=$(anonymous_on_0)
./homing evacuate 0 --cgroup $group >evacuate.out 2>&1
left=$(anonymous_on_0) have=$(cpus)
case " $have" in *" 0 "* | *" 1 "* | *" 0-"*) not_ok 'evacuate --cgroup' "threads may run on $have" evacuate.out ;; *)
  if [ "$was" -ge 100 ] && [ "$left" -le 8 ]; then ok "evacuate --cgroup: $was pages on the node, then $left"
  else not_ok 'evacuate --cgroup' "$was pages on the node, then $left" evacuate.out; fi ;;
esac
./homing restore 0 >restore.out 2>&1
[ "$(cpus)" = "$had" ] && ok 'restore gives affinities back' || not_ok restore "had $had, has $(cpus)" restore.out
wait $bands
grep -q ' wrong=0$' evacuated.out && ok 'evacuated data' || not_ok evacuate 'wrong data' evacuated.out
rmdir $group

./homing run --source hint-faults --quiet --summary churn.json -- ./churn 8 14 >churn.out 2>churn.err & engine=$!
sleep 5
size() { echo "$(ls /proc/$engine/fd | wc -l) $(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$engine/status)"; }
early=$(size)
sleep 8
late=$(size)
wait $engine
grep ' wrong=' churn.out
if ! grep -q ' wrong=0$' churn.out; then not_ok churn 'wrong data' churn.err
elif [ "${late%% *}" -gt $((${early%% *} + 16)) ] || [ "${late##* }" -gt $((${early##* } + 20000)) ]; then not_ok churn "descriptors and KiB: $early, later $late"
else ok "churn: $(moved churn.json) pages moved; descriptors and KiB: $early, later $late"; fi

./homing run --source hint-faults --quiet --summary many.json -- ./bands 1000 1 10 >many.out 2>many.err
if ! grep -q ' wrong=0$' many.out; then not_ok 'a thousand threads' 'wrong data' many.err; else ok "a thousand threads: $(moved many.json) pages moved"; fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
