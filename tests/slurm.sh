#!/usr/bin/env bash
# Slurm's own programs in a machine of the lab: prolog and epilog of packaging/slurm give jobs an engine of their own.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "slurm: FAILED: $*"; exit 1; }
cd "$work"
plugins=/usr/lib/$(uname -m)-linux-gnu/slurm-wlm
for needed in slurmctld slurmd slurmstepd srun sbatch sinfo scancel scontrol; do
  path=$(PATH=$PATH:/usr/sbin command -v $needed) && [ -d "$plugins" ] ||
    { echo "SKIPPED 3 tests of Slurm: no $needed on this machine (packages slurmctld, slurmd, slurm-client)"; exit 0; }
  files+=(--file "$path")
done
. "$root/tests/in_lab.sh"
needs_lab '3 tests of Slurm'
strip --strip-debug -o homing "$homing" || exit 1
cp "$root"/tests/slurm/* "$root"/packaging/slurm/* "$root/build/workloads/cg" . || fail 'no cg: run `make workloads`'
for file in homing slurm.conf cgroup.conf homing-engine homing-prolog homing-epilog cg; do files+=(--file $file); done
lab_job slurm 150 "${files[@]}" --file "$plugins" -- sh ./guest.sh
lab_jobs "${lab_quiet[@]}" || fail 'in the lab'
echo 'slurm: passed'
