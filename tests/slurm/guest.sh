# In the lab: a real slurmctld and slurmd, whose prolog begins an engine for each job of one partition.
fail() { echo "FAILED: $*"; tail -n 15 slurmctld.log slurmd.log logs/*; exit 1; }
until_true() { for _ in $(seq "$1"); do sh -c "$2" && return; sleep 0.5; done; fail "did not come: $2"; }
dir=$PWD
mkdir -p slurm/state slurm/spool /etc/homing /sys/fs/cgroup/system.slice
hostname localhost
echo '127.0.0.1 localhost lab' >/etc/hosts
# getaddrinfo wants an address that is not the loopback's.
ip addr add 10.9.9.9/32 dev lo
for group in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do echo '+cpuset +cpu +memory' >$group/cgroup.subtree_control; done
sed -i "s|@DIR@|$dir|" slurm.conf
printf '%s\n' "partitions=numa homing=$dir/homing logs=$dir/logs" >/etc/homing/slurm.conf
export SLURM_CONF=$dir/slurm.conf
slurmctld -D >slurmctld.log 2>&1 &
slurmd -D -N lab >slurmd.log 2>&1 &
until_true 60 'sinfo -h -o %t 2>/dev/null | grep -q idle'

srun -p numa -n1 -c8 --cpu-bind=none ./cg -t 8 -n 6000 -i 800 --init serial >cg.out 2>srun.err || fail "srun: $(cat srun.err)"
grep -q 'check=ok' cg.out || fail "$(cat cg.out)"
until_true 40 '[ ! -e /run/homing/slurm-1.pid ]'
moved=$(sed -n 's/^ *"pages_moved": \([0-9]*\),*$/\1/p' logs/job-1.0.json | head -n 1)
[ "${moved:-0}" -gt 0 ] || fail "no page of the job moved: $(cat logs/job-1.log)"
echo "ok the engine of job 1 moved $moved pages"

srun -p plain -n1 sleep 2 || fail 'srun in the other partition'
[ ! -e logs/job-2.log ] || fail 'a job of another partition has an engine'
echo 'ok a job of another partition has none'

# Two steps, the second of which is cancelled: the engine follows, and is gone after the job.
printf '#!/bin/sh\nsrun ./cg -t 8 -n 1000 -i 30 --init serial\nsrun sleep 300\n' >batch.sh
sbatch -p numa -n1 -c8 -o batch.out batch.sh >/dev/null || fail sbatch
until_true 60 'scontrol listpids 3 2>/dev/null | grep -q " 1 "'
until_true 40 '[ -e /run/homing/slurm-3.pid ]'
engine=$(cat /run/homing/slurm-3.pid)
kill -0 "$engine" || fail 'job 3 has no engine'
scancel 3
until_true 60 '[ ! -e /run/homing/slurm-3.pid ]'
kill -0 "$engine" 2>/dev/null && fail 'an engine is left'
[ -z "$(ps | grep '[h]oming attach')" ] || fail 'an engine is left'
echo 'ok the engine of a cancelled job ends'
