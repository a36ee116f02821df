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
"$homing" lab run --topology 2x2 -- true 2>first.err
if [ $? -eq 3 ]; then echo "SKIPPED 3 tests of Slurm, which need the lab: $(cat first.err)"; exit 0; fi
strip --strip-debug -o homing "$homing" || exit 1
cp "$root"/tests/slurm/* "$root"/packaging/slurm/* "$root/build/workloads/cg" . || fail 'no cg: run `make workloads`'
for file in homing slurm.conf cgroup.conf homing-engine homing-prolog homing-epilog cg; do files+=(--file $file); done
. "$root/tests/in_lab.sh"
in_lab 150 "${files[@]}" --file "$plugins" -- sh ./guest.sh || fail 'in the lab'
echo 'slurm: passed'
