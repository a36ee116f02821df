# In the lab (4 nodes of 2 CPUs): a partition of three nodes gives two of them to another one that comes first, while a job runs on all
# three. Its threads and pages leave them, as /proc/PID/numa_maps says, and both jobs end well.
export HOMING_LIB=$PWD/lib
fail() { echo "FAILED: $*"; cat run.err divided.jsonl; exit 1; }
./homing sched run divided.toml --manager equipartition --pages off --window 3 --json --log divided.jsonl >divided.json 2>run.err &
scheduler=$!
moved=0
for _ in $(seq 200); do
  moved=$(grep -c '"input":{"vacated"' divided.jsonl 2>/dev/null)
  [ "${moved:-0}" -ge 2 ] && break
  kill -0 $scheduler 2>/dev/null || break
  sleep 0.5
done
[ "${moved:-0}" -ge 2 ] || { cat divided.json; fail "$moved nodes moved"; }
sleep 1
pid=$(head -1 /sys/fs/cgroup/homing-*/job-0/cgroup.procs)
# Anonymous pages at each node.
pages() { grep 'anon=' /proc/$pid/numa_maps | grep -o "N$1=[0-9]*" | cut -d= -f2 | { sum=0; while read -r n; do sum=$((sum + n)); done; echo $sum; }; }
kept=0 left=0
for node in 0 1 2; do
  count=$(pages $node)
  has=$(cat /sys/fs/cgroup/homing-*/job-0/cpuset.mems)
  if [ "$has" = $node ]; then kept=$((kept + count)); else left=$((left + count)); fi
done
[ "$kept" -ge 500 ] && [ "$left" -le 10 ] || fail "$kept pages where the job is, $left on nodes that it left"
echo "ok $kept pages where the job is, $left on nodes that it left"
wait $scheduler || fail "status $?"
[ "$(grep -c '"status": 0' divided.json)" -eq 2 ] || fail 'not both ended well'
came=$(sed -n 's/^ *"pages_moved": \([0-9]*\),$/\1/p' divided.json | { sum=0; while read -r n; do sum=$((sum + n)); done; echo $sum; })
[ "$came" -ge 200 ] || fail "$came pages counted as moved"
echo "ok $came pages left the nodes that went"
