#!/usr/bin/env bash
# Everything that CI runs, after setup and build: each part in turn, all of them even when one fails, then a summary, with the end of
# what each failed part said.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Nobody builds this tree again on CI's machine: what only a second build would use is not written.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Most seconds that one part takes. The longest takes some 400 on a quiet machine.
LIMIT=${LIMIT:-1500}

parts=0 failed=() started=$SECONDS running=
trap '[ -z "$running" ] || kill -TERM "$running" 2>/dev/null; exit 130' INT TERM
part() {
  local name=$1 from=$SECONDS
  shift
  parts=$((parts + 1))
  printf '\n== %s: %s\n' "$name" "$*"
  : >"$logs/$name"
  # Into a file and no pipe: a process that a failed test leaves behind would hold the pipe open, and the part would never end.
  # Nor are signals ignored, as they are in the background of a shell.
  env --default-signal=INT,QUIT timeout --kill-after=30 "$LIMIT" "$@" >"$logs/$name" 2>&1 &
  running=$!
  tail -f -s 0.2 --pid="$running" -n +1 "$logs/$name"
  if wait "$running"; then printf '== %s: ok in %d s\n' "$name" $((SECONDS - from))
  else printf '== %s: FAILED with status %d after %d s\n' "$name" $? $((SECONDS - from)); failed+=("$name"); fi
  running=
}

part format cargo fmt --all --check
part lines scripts/lines.sh
# In the profile of the program, so that build scripts and macros are built once. The fuzz targets are checked here.
part lints cargo clippy --release --workspace --all-targets --locked -- -D warnings
part cross scripts/cross.sh
part cargo cargo test --release --locked --no-fail-fast
part workloads workloads/test.sh
part record tests/workloads_record.sh
part why tests/why.sh
part cachegrind tests/cachegrind.sh
part lab tests/lab.sh
part live tests/live.sh
part runtime tests/runtime.sh
part safety tests/safety.sh
part protect tests/protect.sh
part rset tests/rset.sh
part sched tests/sched.sh
part slurm tests/slurm.sh
part unit tests/unit.sh
part page ui/run-tests.sh
part deny scripts/deny.sh

printf '\n%d parts in %d s\n%d passed, %d failed\n' "$parts" $((SECONDS - started)) $((parts - ${#failed[@]})) ${#failed[@]}
[ ${#failed[@]} -eq 0 ] && exit
for name in "${failed[@]}"; do
  printf '\n== the end of %s, which failed:\n' "$name"
  tail -n 60 "$logs/$name"
done
echo "failed: ${failed[*]}"
exit 1
