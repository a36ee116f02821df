#!/usr/bin/env bash
# Runs each test file that has changed since a commit many times beside two busy loops, and says which failed how often:
# scripts/flaky.sh [BASE]. BASE is HEAD~1 where none is given. TIMES=N runs each N times (50).
set -uo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD~1} times=${TIMES:-50}
logs=$(mktemp -d)
busy=()
trap 'for pid in "${busy[@]}"; do kill "$pid"; done; rm -rf "$logs"' EXIT

# The command that runs the tests of a file; nothing for other files.
command_of() {
  local file=$1 module
  case $file in
    crates/*/tests/it/*.rs) echo "cargo test -q --release --test it -- $(basename "$file" .rs)::" ;;
    crates/*/tests/*.rs) echo "cargo test -q --release --test $(basename "$file" .rs)" ;;
    crates/*/src/*.rs)
      grep -q '#\[test\]' "$file" || return
      module=${file#crates/*/src/} module=${module%.rs} module=${module%/mod}
      echo "cargo test -q --release --lib --bins -- ${module//\//::}::" ;;
    tests/*.sh) grep -q "part .*$file" scripts/test.sh && echo "$file" ;;
  esac
}

git rev-parse -q --verify "$base^{commit}" >/dev/null || { echo "flaky: $base is no commit" >&2; exit 2; }
mapfile -t commands < <(git diff --name-only --diff-filter=d "$base" | while read -r file; do command_of "$file"; done | sort -u)
[ ${#commands[@]} -gt 0 ] || { echo "no test file has changed since $base"; exit 0; }
cargo build --release --locked --all-targets || exit 1
for _ in 1 2; do
  sh -c 'while :; do :; done' &
  busy+=($!)
done

failed=0
for command in "${commands[@]}"; do
  count=0
  for ((turn = 0; turn < times; turn++)); do
    # The commands are words without quotes.
    # shellcheck disable=SC2086
    $command >"$logs/out" 2>&1 || { count=$((count + 1)) && cp "$logs/out" "$logs/failed"; }
  done
  printf '%3d of %d failed: %s\n' "$count" "$times" "$command"
  [ "$count" -eq 0 ] || { tail -n 30 "$logs/failed"; failed=1; }
done
exit $failed
