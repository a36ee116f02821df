#!/usr/bin/env bash
# Data placed by name: in a machine of the lab with two nodes, the pages of the named array alone are where the plan wants
# them, by the kernel's own words.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "place: FAILED: $*"; exit 1; }
. "$root/tests/in_lab.sh"
cd "$work"

needs_lab "the lab's test of placement by name"
gcc -O2 -g -fno-ipa-icf -Wall -Werror -o nodes "$root/tests/place/nodes.c" || fail 'the test program does not build'
make -s -C "$root/preload" OUT="$work/preload" || fail 'the library does not build'
strip --strip-debug -o homing "$homing"
cp "$root/tests/place/guest.sh" .
line=$(grep -n '/\* grid \*/' "$root/tests/place/nodes.c" | cut -d : -f 1)
lab_job place 120 --file homing --file preload --file nodes -- sh ./guest.sh "$line"
lab_jobs --topology 2x2 --balancing off --thp never || fail 'see above'
echo 'place: passed'
