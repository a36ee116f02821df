#!/usr/bin/env bash
# Everything that CI runs, after setup and build: each part in turn, all of them even when one fails, then a summary, with the end of
# what each failed part said.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

parts=0 failed=() started=$SECONDS
part() {
  local name=$1 from=$SECONDS
  shift
  parts=$((parts + 1))
  printf '\n== %s: %s\n' "$name" "$*"
  if "$@" 2>&1 | tee "$logs/$name"; then printf '== %s: ok in %d s\n' "$name" $((SECONDS - from))
  else printf '== %s: FAILED after %d s\n' "$name" $((SECONDS - from)); failed+=("$name"); fi
}

part format cargo fmt --all --check
part lines scripts/lines.sh
part lints cargo clippy --workspace --all-targets --locked -- -D warnings
part cross scripts/cross.sh
part cargo cargo test --workspace --locked --no-fail-fast

# The targets' own binaries, without a fuzzer's instrumentation, which needs another toolchain.
part fuzz env CARGO_TARGET_DIR=target/fuzz cargo check --manifest-path fuzz/Cargo.toml --bins
part workloads workloads/test.sh
part record tests/workloads_record.sh
part why tests/why.sh
part cachegrind tests/cachegrind.sh
part lab tests/lab.sh
part why-lab env WHAT=cost OUT="$logs/why-lab.counts" tests/why_lab.sh stencil rows
part live tests/live.sh
part runtime tests/runtime.sh
part safety tests/safety.sh
part rset tests/rset.sh
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
