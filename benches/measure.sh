# What the benchmarks measure with; to be sourced.
# shellcheck shell=bash

# CPU seconds (user + system) of a command and its children; its output is shown if it fails.
cpu() {
  local out TIMEFORMAT='%U %S'
  out=$(mktemp)
  { time "$@" >"$out" 2>&1 || { cat "$out" >&2; rm -f "$out"; exit 1; }; } 2>&1 | awk '{ print $1 + $2 }'
  rm -f "$out"
}

# Peak resident memory of a command or of the largest of its children, in MiB.
peak() {
  python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)' "$@"
}
