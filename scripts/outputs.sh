#!/usr/bin/env bash
# The outputs of a fixed set of commands, to compare two builds byte by byte:
#   scripts/outputs.sh PROGRAM DIRECTORY        # once for each build
#   diff -r DIRECTORY OTHER                     # nothing: they do the same
# Only commands whose output is the same in each run: no live session, no measured time.
set -uo pipefail
program=$(realpath "${1:?expected a program and a directory}") out=${2:?expected a directory for the outputs}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out" && out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/crates/homing-trace/tests/fixtures/*.trace "$root"/crates/homing-trace/tests/perf_data/*.data "$root"/fuzz/corpus/swf/three.swf "$work"
cd "$work" || exit 1
export HOME=$work XDG_CONFIG_HOME=$work TERM=dumb

count=0
save() { # ARGUMENTS...: what the command writes, and its status
  count=$((count + 1))
  local name
  name=$(printf '%03d-%s' "$count" "$(tr -cs 'A-Za-z0-9.\n' '-' <<<"$*" | cut -c1-80)")
  { "$program" "$@"; echo "status $?"; } </dev/null 2>&1 | sed -E 's/("seconds": )[0-9.e-]+/\10/' >"$out/$name"
}

for list in machines policies monitors "lab topologies" "sched managers"; do
  # Several words.
  # shellcheck disable=SC2086
  save $list && save $list --json
done
for command in record why diff try compare optimal simulate study sched run attach top daemon evacuate replay lab trace rset; do
  save "$command" --help
done
save policies homing; save machines four-socket
for trace in blocks mremap parallel threads; do
  save trace info "$trace.trace"
  save trace export "$trace.trace"
  for machine in ace synfinity-4x4 four-socket; do
    save optimal "$trace.trace" --machine "$machine" --json
  done
  save compare "$trace.trace" --machine four-socket
  save simulate "$trace.trace" --machine four-socket --policy interval-majority
  save why "$trace.trace" --machine four-socket
done
save simulate threads.trace --machine four-socket --policy work-function --monitor hint-faults:slow=70000
save simulate threads.trace --machine four-socket --policy homing --monitor interconnect
save compare blocks.trace --machine ace --json
save optimal threads.trace --machine four-socket --misses --load
save trace refine threads.trace --top 5
save why pebs.data
save why spe.data
for mix in w1 w2 w3 w4; do save sched simulate --mix "$mix" --jobs 20; done
save sched simulate three.swf --json
save nonsense
save optimal absent.trace
echo "$count outputs in $out"
