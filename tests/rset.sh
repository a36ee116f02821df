#!/usr/bin/env bash
# Resource sets: what `homing rset exec` does to programs, and libhoming for them, checked by the kernel's own words
# in a machine of the lab.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "rset: FAILED: $*"; exit 1; }
. "$root/tests/in_lab.sh"
cd "$work"

needs_lab "the lab's test of resource sets"
gcc -O2 -Wall -Werror -o where "$root/tests/rset/where.c" -pthread || fail 'the test program does not build'
make -s -C "$root/preload" OUT="$work/preload" || fail 'the library does not build'
strip --strip-debug -o homing "$homing"
strip --strip-debug -o libhoming.so.0 "$library" || fail "no $library: run \`make runtime\`"
gcc -O2 -Wall -Werror -I"$root/include" -o library "$root/tests/rset/library.c" libhoming.so.0 '-Wl,-rpath,$ORIGIN' ||
  fail 'the test program of the library does not build'
cp "$root"/tests/rset/*.sh "$root"/tests/rset/*.toml .
lab_job rset 300 --file homing --file preload --file where --file library --file libhoming.so.0 --file sets.toml -- sh ./guest.sh
lab_jobs "${lab_quiet[@]}" || fail 'see above'
echo 'rset: passed'
