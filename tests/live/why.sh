#!/bin/sh
# Runs inside the lab: `homing why` of a process whose array is on node 0 and whose thread is on another node; of one
# whose huge pages are there, and cannot move; of one whose pages the kernel moves to and fro; of a cgroup with three processes, one of which ends. Nothing may move.
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

# Huge pages of hugetlbfs, of which there are some on node 0 only, so that they can move nowhere.
pages=8
echo $pages >/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages
./pool 4 $pages >pool.out 2>&1 & pool=$!
until_true grep -q ready pool.out || { echo 'pool does not begin:'; cat pool.out; exit 1; }
./homing why --pid $pool --seconds 15 --source page-faults --json >pool.json 2>why.err || { cat why.err; exit 1; }
kill -TERM $pool
wait $pool || { echo "pool ended with status $?"; exit 1; }

# Pages that two nodes use at random, on a kernel that looks often for pages to move.
knobs=/sys/kernel/debug/sched/numa_balancing
[ -d $knobs ] || mount -t debugfs none /sys/kernel/debug
kept="$(cat $knobs/scan_period_min_ms) $(cat $knobs/scan_period_max_ms)"
often() { echo $1 >$knobs/scan_period_min_ms; echo $2 >$knobs/scan_period_max_ms; echo $3 >/proc/sys/kernel/numa_balancing; }
often 50 200 1
./swings 2 16384 >swings.out & swings=$!
until_true grep -q ready swings.out || { echo 'swings does not begin'; exit 1; }
counted() { awk '$1 == "numa_hint_faults" { print $2 }' /proc/vmstat; }
first=$(counted)
many() { [ "$(counted)" -gt $((first + 32768)) ]; }
until_true many || { echo 'the kernel balances nothing'; exit 1; }
./homing why --pid $swings --seconds 20 --source page-faults --json >swings.json 2>why.err || { cat why.err; exit 1; }
often $kept 0
kill -TERM $swings
wait $swings || { echo "swings ended with status $?"; exit 1; }

# Three processes of a cgroup. One ends once all are sampled: each has a helper then.
group=/sys/fs/cgroup/three
mkdir $group
if ./homing why --cgroup $group >empty.out 2>&1; then echo 'not ok why: an empty cgroup is no error'; exit 1; fi
grep -q "$group is empty" empty.out && echo 'ok why: an empty cgroup is an error' || { cat empty.out; exit 1; }
members=
for cpu in 2 4 6; do
  sh -c "echo \$\$ >$group/cgroup.procs; exec ./away $cpu" >member-$cpu.out & members="$members $!"
done
for cpu in 2 4 6; do until_true grep -q ready member-$cpu.out || { echo "away $cpu does not begin"; exit 1; }; done
./homing why --cgroup $group --seconds 45 --source hint-faults --json >group.json 2>why.err & why=$!
helpers() { grep -l homing-scan /proc/[0-9]*/comm 2>/dev/null | wc -l; }
# The kernel has marked the pages of the one that will end, each of which took a fault.
faults() { cut -d ' ' -f 10 /proc/$1/stat; }
leaver=${members##* } faults=$(faults ${members##* })
all_sampled() { ended || { [ "$(helpers)" -ge 3 ] && [ "$(faults $leaver)" -ge $((faults + 1000)) ]; }; }
until_true all_sampled
sleep 2
kill -TERM $leaver
until_true ended || { echo 'homing why of a cgroup does not end'; exit 1; }
wait $why || { cat why.err; exit 1; }
for member in ${members% *}; do kill -TERM $member; done
wait
rmdir $group
echo 'ok why: a cgroup'
