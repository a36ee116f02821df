#!/bin/sh
# Runs inside the lab, as root: attach, memory policies, two engines, kill -9, evacuation of a cgroup, a daemon's scopes, churn, a thousand threads.
# Each check prints a line `ok NAME` or `not ok NAME: why`. Nothing is timed: what must happen is waited for.
. ./wait.sh
# bands 8 64: 512 pages, three quarters of which begin away from home.
enough=340
home() { has_landed "$1" $enough; }
tunables() { cat /proc/sys/kernel/numa_balancing /sys/kernel/debug/sched/numa_balancing/*; }
state=/run/homing/tunables
bands() { ./bands 8 64 3600 >"$1" & bands=$!; }
# Ends bands and says whether its data are right.
end_bands() { kill -TERM $bands; wait $bands; right "$1" && ok "$2: data are right" || not_ok "$2" "ended with status $?, or wrong data" "$1"; }

bands attach.out
./homing attach --source hint-faults --quiet --journal attach.log --pid $bands 2>attach.err & engine=$!
until_true home attach.log && ok "attach: $(landed attach.log) pages moved" || not_ok attach "$(landed attach.log) pages moved" attach.err
kill -TERM $engine
wait $engine
end_bands attach.out attach

./homing run --source hint-faults --quiet --journal policy.log --summary policy.json -- ./numa interleave ./bands 8 64 3600 >policy.out 2>policy.err & engine=$!
until_true home policy.log && ok "under a memory policy: $(landed policy.log) pages moved" ||
  not_ok 'under a memory policy' "$(landed policy.log) pages moved" policy.err
kill -TERM $engine
wait $engine
grep -q '"faults_before": [1-9]' policy.json && ok 'page faults before the first scan are counted' ||
  not_ok 'page faults before the first scan' 'none' policy.json
right policy.out && ok 'under a memory policy: data are right' || not_ok 'under a memory policy' 'wrong data' policy.out

# MPOL_BIND is an order: what main has made on node 0 stays there, though threads of all nodes use it.
./homing run --source hint-faults --summary bound.json --journal bound.log -- \
  sh -c 'echo $$ >bound.pid; exec ./numa bind ./bands 8 64 3600' >bound.out 2>bound.err & engine=$!
refused() { count=$(grep -c '"outcome":{"refused":"a memory policy' bound.log 2>/dev/null); [ "${count:-0}" -ge 100 ]; }
until_true refused
left=$(pages_on 0 "$(cat bound.pid)")
kill -TERM $engine
wait $engine
[ "$left" -ge 500 ] && [ "$(landed bound.log)" -eq 0 ] && grep -q 'moves refused: .*a memory policy (MPOL_BIND)' bound.err &&
  ok "under MPOL_BIND: $left pages stay, none moves" || not_ok 'under MPOL_BIND' "$left on node 0, $(landed bound.log) moved" bound.err
right bound.out && ok 'under MPOL_BIND: data are right' || not_ok 'under MPOL_BIND' 'wrong data' bound.out

# Programs under timers and queued signals, which check themselves: under a session that starts them, and one that comes later.
for way in run attach; do
  mkfifo $way.in
  case $way in
  run) ./homing run --source hint-faults --quiet --journal signals-$way.log -- ./signals 1000 stopped <$way.in >signals-$way.out 2>signals-$way.err & engine=$! ;;
  attach)
    ./signals 1000 stopped <$way.in >signals-$way.out & program=$!
    ./homing attach --source hint-faults --quiet --journal signals-$way.log --pid $program 2>signals-$way.err & engine=$! ;;
  esac
  exec 9>$way.in
  until_true grep -q ready signals-$way.out
  pokes=0
  while [ $pokes -lt 60 ]; do echo; sleep 0.2; pokes=$((pokes + 1)); done >&9
  exec 9>&-
  if [ $way = run ]; then wait $engine; status=$?; else wait $program; status=$?; wait $engine; fi
  [ $status -eq 0 ] && ok "$way, a program under signals: $(tail -n 1 signals-$way.out)" ||
    not_ok "$way, a program under signals" "status $status: $(cat signals-$way.out)" signals-$way.err
done

# Huge pages that four bands share.
thp=/sys/kernel/mm/transparent_hugepage/enabled
echo always >$thp
./bands 8 128 3600 >huge.out & bands=$!
huge() { awk '/^AnonHugePages/ { n += $2 } END { print n + 0 }' /proc/$bands/smaps_rollup; }
is_huge() { [ "$(huge)" -ge 2048 ]; }
until_true is_huge
./homing attach --source hint-faults --quiet --journal huge.log --pid $bands 2>huge.err & engine=$!
# Each has been moved as a whole, or not, before it was split: where the pages are tells, 256 on each node at the end.
all_home() { [ "$(pages_on 1 $bands)" -ge 230 ] && [ "$(pages_on 2 $bands)" -ge 230 ] && [ "$(pages_on 3 $bands)" -ge 230 ]; }
until_true all_home && grep -q '"is":"split"' huge.log && ok "shared huge pages: $(grep -c '"is":"split"' huge.log) split, $(landed huge.log) moves" ||
  not_ok 'shared huge pages' "$(landed huge.log) moves, $(huge) KiB are huge, on nodes 1 to 3: $(pages_on 1 $bands) $(pages_on 2 $bands) $(pages_on 3 $bands)" huge.err
kill -TERM $engine
wait $engine
end_bands huge.out 'shared huge pages'
echo never >$thp

# Twice as many threads as CPUs: scans come, and pages move. How many come home is by chance (docs/live.md, "Limits").
some() { has_landed "$1" 100; }
./bands 16 32 3600 >busy.out & bands=$!
./homing attach --source hint-faults --quiet --journal busy.log --pid $bands 2>busy.err & engine=$!
until_true some busy.log && ok "attach, busy CPUs: $(landed busy.log) pages moved" || not_ok 'attach, busy CPUs' "$(landed busy.log) pages moved" busy.err
kill -TERM $engine
wait $engine
end_bands busy.out 'busy CPUs'

before=$(tunables)
bands killed.out
for pause in 0.1 0.3 0.6 1 2 4; do
  ./homing attach --source hint-faults --quiet --journal killed-$pause.log --pid $bands 2>killed.err & engine=$!
  until_true [ -e $state ]
  if [ $pause = 4 ]; then
    # The file with the tunables is there since the first that was killed: its own journal tells that it has begun.
    until_true [ -s killed-$pause.log ]
    ./homing attach --for 1s --pid $bands >second.out 2>&1
    echo "status $?" >>second.out
    kill -0 $engine || { echo 'the first engine has ended:'; cat killed.err; tail -n 3 killed-$pause.log; } >>second.out 2>&1
    grep -q 'another session' second.out && grep -q 'the engine does not run' second.out && grep -qx 'status 3' second.out &&
      ok 'a second engine, which nothing tells who uses pages, does not run' || not_ok 'second engine' 'no message' second.out
    ./homing doctor --restore >restore.out 2>&1 && not_ok 'doctor --restore' 'disturbs a session' restore.out ||
      ok 'doctor --restore leaves a running session alone'
  fi
  sleep $pause
  kill -9 $engine
  wait $engine 2>/dev/null
  kill -0 $bands || { not_ok 'kill -9' "the program ended with the engine that was killed after $pause s" killed.out; break; }
done
./homing doctor --restore >restore.out 2>&1
[ "$(tunables)" = "$before" ] && ok 'doctor --restore after kill -9' || not_ok 'doctor --restore after kill -9' 'tunables differ' restore.out
end_bands killed.out 'kill -9, six times'

# No page moves from a node to itself: four nulls in each of three matrices.
./homing bench --size 4M --time 2ms --json >bench.out 2>&1 && [ "$(grep -c null bench.out)" -eq 12 ] && ok 'bench: pages move between all nodes' ||
  not_ok bench "$(grep -c null bench.out) of 12 nulls" bench.out

group=/sys/fs/cgroup/taken
mkdir $group
sh -c "echo \$\$ >$group/cgroup.procs; exec ./bands 8 64 3600" >evacuated.out & bands=$!
cpus() { for task in /proc/$bands/task/*; do sed -n 's/^Cpus_allowed_list:\t//p' $task/status; done | sort | tr '\n' ' '; }
# Each of eight threads is on a CPU of its own.
threads() { [ "$(cpus | tr ' ' '\n' | sort -u | grep -c .)" -eq 8 ]; }
until_true threads
had=$(cpus) was=$(pages_on 0 $bands)
./homing evacuate 0 --cgroup $group >evacuate.out 2>&1
left=$(pages_on 0 $bands) have=$(cpus)
case " $have" in
*" 0 "* | *" 1 "* | *" 0-"*) not_ok 'evacuate --cgroup' "threads may run on $have" evacuate.out ;;
*) [ "$was" -ge 100 ] && [ "$left" -le 8 ] && ok "evacuate --cgroup: $was pages on the node, then $left" ||
  not_ok 'evacuate --cgroup' "$was pages on the node, then $left" evacuate.out ;;
esac
./homing restore 0 >restore.out 2>&1
[ "$(cpus)" = "$had" ] && ok 'restore gives affinities back' || not_ok restore "had $had, has $(cpus)" restore.out
end_bands evacuated.out evacuate
rmdir $group

# A process whose threads all run on another node gives nothing up, and gets nothing back.
./bands 1 8 3600 >stays.out & bands=$!
until_true [ -e /proc/$bands/task ]
until_true sh -c "grep -q '^Cpus_allowed_list:[[:space:]]*0$' /proc/$bands/status"
./homing evacuate 3 --pid $bands >evacuate.out 2>&1
status=$? # 5 where the files that it maps are in the node's page cache
{ [ $status -eq 0 ] || [ $status -eq 5 ]; } && ./homing restore 3 >restore.out 2>&1 && ok 'restore of a node that no thread had to leave' ||
  not_ok 'restore of a node that no thread had to leave' "status $status: $(cat evacuate.out)" restore.out
./homing restore 3 >restore.out 2>&1 && not_ok 'restore twice' 'ends with 0' restore.out || ok 'restore of a node that was not evacuated fails'
end_bands stays.out 'restore without threads'

# A program beside a session, whose threads are due to scan their own memory, keeps its pages where they are: so often, since
# without care it loses them to every other session.
bands beside.out
due() { [ "$(awk '{ print $14 + $15 }' /proc/$bands/stat)" -ge 1600 ]; } # two seconds of CPU time a thread
until_true due
for time in 1 2 3 4; do ./homing run --source hint-faults --quiet -- ./bands 8 64 3 >session.out 2>session.err ||
  not_ok "beside session $time" "ended with status $?" session.err; done
left=$(pages_on 0 $bands)
[ "$left" -ge 500 ] && ok "beside four sessions: $left pages stay" || not_ok 'beside four sessions' "$left pages stay" session.err
end_bands beside.out 'beside four sessions'

# A daemon serves the cgroup of its scope, and after a reload another one.
groups='first second'
for name in $groups; do
  mkdir /sys/fs/cgroup/$name
  sh -c "echo \$\$ >/sys/fs/cgroup/$name/cgroup.procs; exec ./bands 8 64 3600" >$name.out &
  eval "$name=\$!"
done
scope() { printf 'source = "hint-faults"\njournals = "journals"\n[scope.%s]\ncgroup = "%s"\n' "$1" "$1" >daemon.toml; }
tunables >before.tunables
mkdir journals
scope first
./homing daemon --config daemon.toml 2>daemon.err & engine=$!
until_true home journals/first.journal
others=$(pages_on 0 $second)
[ "$(landed journals/first.journal)" -ge $enough ] && [ "$others" -ge 500 ] &&
  ok "daemon: $(landed journals/first.journal) pages moved in its scope, $others left where they were outside" ||
  not_ok daemon "$(landed journals/first.journal) pages moved in its scope, $others left outside" daemon.err
scope second
kill -HUP $engine
until_true home journals/second.journal && ok "daemon, after a reload: $(landed journals/second.journal) pages moved in the other scope" ||
  not_ok 'daemon, after a reload' "$(landed journals/second.journal) pages moved" daemon.err
kill -TERM $engine
wait $engine
status=$?
tunables >after.tunables
[ $status -eq 0 ] && cmp -s before.tunables after.tunables && ok 'daemon: a clean stop' || not_ok 'daemon: stop' "status $status, or tunables differ" daemon.err
for name in $groups; do
  eval "bands=\$$name"
  end_bands $name.out "daemon, $name scope"
  rmdir /sys/fs/cgroup/$name
done

./homing run --source hint-faults --quiet --journal churn.log -- ./churn 8 14 >churn.out 2>churn.err & engine=$!
sleep 5
size() { echo "$(ls /proc/$engine/fd | wc -l) $(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$engine/status)"; }
early=$(size)
sleep 8
late=$(size)
wait $engine
cat churn.out
if ! right churn.out; then not_ok churn 'wrong data' churn.err
elif [ "${late%% *}" -gt $((${early%% *} + 16)) ] || [ "${late##* }" -gt $((${early##* } + 20000)) ]; then
  not_ok churn "descriptors and KiB: $early, later $late"
else ok "churn: $(landed churn.log) pages moved; descriptors and KiB: $early, later $late"; fi

./homing run --source hint-faults --quiet --summary many.json -- ./bands 1000 1 8 >many.out 2>many.err
right many.out && ok 'a thousand threads' || not_ok 'a thousand threads' 'wrong data' many.err

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
