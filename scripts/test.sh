#!/usr/bin/env bash
# Everything that CI runs, after setup and build: each part in turn, all of them even when one fails, then a summary, with the end of
# what each failed part said.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Nobody builds this tree again on CI's machine: what only a second build would use is not written.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Each part has a budget: the seconds that it takes on two quiet cores. It fails at three times that, so that slow tests do
# not come in unseen (docs/development.md, "Times").
parts=0 failed=() started=$SECONDS running=
trap '[ -z "$running" ] || kill -TERM "$running" 2>/dev/null; exit 130' INT TERM
# CPU time, user and kernel, of the processes that were waited for. Read from a file: a subshell has times of its own.
cpu_seconds() { cut -d ' ' -f 16,17 "/proc/$$/stat" | awk -v hz="$(getconf CLK_TCK)" '{ print int(($1 + $2) / hz) }'; }
part() { # NAME BUDGET COMMAND...
  local name=$1 budget=$2 from=$SECONDS used
  shift 2
  used=$(cpu_seconds)
  parts=$((parts + 1))
  printf '\n== %s: %s\n' "$name" "$*"
  : >"$logs/$name"
  # Into a file and no pipe: a process that a failed test leaves behind would hold the pipe open, and the part would never end.
  # Nor are signals ignored, as they are in the background of a shell.
  env --default-signal=INT,QUIT timeout --kill-after=30 $((3 * budget)) "$@" >"$logs/$name" 2>&1 &
  running=$!
  tail -f -s 0.2 --pid="$running" -n +1 "$logs/$name"
  if wait "$running"; then printf '== %s: ok in %d s' "$name" $((SECONDS - from))
  else printf '== %s: FAILED with status %d after %d s' "$name" $? $((SECONDS - from)); failed+=("$name"); fi
  running=
  printf ' (budget %d s; %d s of CPU)\n' "$budget" $(($(cpu_seconds) - used))
}

part format 10 cargo fmt --all --check
part lines 5 scripts/lines.sh
# In the profile of the program, so that build scripts and macros are built once. The fuzz targets are checked here.
part lints 200 cargo clippy --release --workspace --all-targets --locked -- -D warnings
part cross 60 scripts/cross.sh
part cargo 500 cargo test --release --locked --no-fail-fast
part workloads 40 workloads/test.sh
part record 40 tests/workloads_record.sh
part why 150 tests/why.sh
part cachegrind 40 tests/cachegrind.sh
part lab 200 tests/lab.sh
part live 650 tests/live.sh
part runtime 300 tests/runtime.sh
part safety 150 tests/safety.sh
part protect 80 tests/protect.sh
part rset 40 tests/rset.sh
part place 40 tests/place.sh
part sched 90 tests/sched.sh
part slurm 60 tests/slurm.sh
part unit 20 tests/unit.sh
part page 150 ui/run-tests.sh
part deny 120 scripts/deny.sh

printf '\n%d parts in %d s\n%d passed, %d failed\n' "$parts" $((SECONDS - started)) $((parts - ${#failed[@]})) ${#failed[@]}
[ ${#failed[@]} -eq 0 ] && exit
for name in "${failed[@]}"; do
  printf '\n== the end of %s, which failed:\n' "$name"
  tail -n 60 "$logs/$name"
done
echo "failed: ${failed[*]}"
exit 1
