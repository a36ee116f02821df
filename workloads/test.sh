#!/usr/bin/env bash
# Runs every workload at a small size with 1, 2, 4 and 8 threads: the self-check must pass, and the result must not
# depend on the number of threads (phases is larger with more threads, and so left out there). Then wrong usage, and the
# same programs built by clang where there is one.
#   workloads/test.sh [DIRECTORY_OF_PROGRAMS]   default: build/workloads
set -u
here=$(dirname "$(realpath "$0")")
programs=$(realpath "${1:-$here/../build/workloads}")
cd "$here" || exit 1
export OMP_WAIT_POLICY=passive
numbers_of_threads="1 2 4 8"
failures=0

fail() {
   echo "FAILED: $*" >&2
   failures=$((failures + 1))
}

. ./small.sh

test_program() {
   local name=$1 seed threads line first init
   for seed in 1 4294967311; do
      first=
      for threads in $numbers_of_threads; do
         # shellcheck disable=SC2046
         line=$(timeout 120 "$programs/$name" $(small "$name") -s $seed -t $threads) || fail "$name -s $seed -t $threads: $line"
         [[ $line == "$name "*" check=ok "* ]] || fail "$name -s $seed -t $threads: no result line: $line"
         first=${first:-$(result_of "$line")}
         [[ $name == phases || $(result_of "$line") == "$first" ]] ||
            fail "$name -s $seed: with 1 thread: $first; with $threads: $line"
      done
   done
   # Who touches the data first does not change the result.
   "$programs/$name" --help | grep -q -e --init && for init in parallel serial; do
      # shellcheck disable=SC2046
      line=$("$programs/$name" $(small "$name") -s $seed -t 4 --init $init) || fail "$name --init $init: $line"
      [[ $(result_of "$line") == "$first" ]] || fail "$name --init $init: without: $first; with: $line"
   done
   # shellcheck disable=SC2046
   line=$(OMP_NUM_THREADS=3 "$programs/$name" $(small "$name"))
   [[ $line == *" threads=3 "* ]] || fail "$name does not obey OMP_NUM_THREADS: $line"
}

test_usage() {
   local name=$1 arguments output status
   for arguments in "-n" "-n 0" "-n x" "-n 7x" "-n -5" "-n 99999999999999999999999" "-t 0" "-t 1025" "-i 0" "--init" "--init x" "-s -1" "-x 1" "64" \
      "--threads 2"; do
      # shellcheck disable=SC2086
      output=$("$programs/$name" $arguments 2>&1 >/dev/null)
      status=$?
      [[ $status == 2 ]] || fail "$name $arguments: exit status $status, expected 2"
      [[ $output == *"usage: $name"* ]] || fail "$name $arguments: no usage on stderr: $output"
   done
   output=$("$programs/$name" --help) || fail "$name --help: exit status $?"
   [[ $output == *"usage: $name"* ]] || fail "$name --help: no usage on stdout"
}

for name in $(make -s list); do
   test_program "$name"
   test_usage "$name"
done
for arguments in "fft -n 100" "mg -n 12" "life -n 100" "cholesky -n 40"; do
   # shellcheck disable=SC2086
   "$programs/"$arguments 2>/dev/null >&2
   [[ $? == 2 ]] || fail "$arguments: a size that does not fit is not refused"
done

# The other compiler: its OpenMP library starts threads in another way.
if command -v clang >/dev/null; then
   programs=$(mktemp -d)
   trap 'rm -rf "$programs"' EXIT
   numbers_of_threads=4
   if make -s CC=clang OUT="$programs"; then
      for name in $(make -s list); do
         test_program "$name"
      done
   else
      fail "clang does not build the workloads"
   fi
fi
[[ $failures == 0 ]] || { echo "workloads: $failures failures" >&2; exit 1; }
echo "workloads: $(make -s list | wc -l) programs ok"
