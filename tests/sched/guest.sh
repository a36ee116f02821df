# In the lab: three jobs under a manager, with cpusets and the live engine. Nothing of them is left.
export HOMING_LIB=$PWD/lib
fail() { echo "FAILED: $*"; cat run.err; exit 1; }
./homing sched run jobs.toml --manager equipartition --pages homing --json >result.json 2>run.err || fail "status $?"
grep -q '"means": "CPUs are set by cpusets of cgroup v2"' result.json || fail 'no cpusets'
[ "$(grep -c '"status": 0' result.json)" -eq 3 ] || fail 'not all ended well'
[ "$(grep -c '"threads": "followed"' result.json)" -eq 3 ] || fail 'threads did not follow'
for job in a b c; do
  grep -q '^sum 7.5 teams ' $job.out || fail "job $job: $(cat $job.out)"
  echo "ok job $job: $(cat $job.out)"
done
for job in a b; do
  grep -q 'teams [2-8] [2-8]' $job.out || fail "job $job had the same number of threads all the time"
done
moved=$(sed -n 's/^ *"pages_moved": \([0-9]*\),$/\1/p' result.json)
[ "${moved:-0}" -gt 0 ] || fail 'no page moved'
echo "ok $moved pages moved"
for left in /sys/fs/cgroup/homing-* /run/homing/jobs-*; do [ ! -e "$left" ] || fail "$left is left"; done
grep -q cpuset /sys/fs/cgroup/cgroup.subtree_control && fail 'the hierarchy still divides CPUs'
exit 0
