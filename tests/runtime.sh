#!/usr/bin/env bash
# libhoming: the examples in C, C++ and Fortran run where nothing can be moved and say so; then, in the lab, a program brings its own
# pages home. `tests/runtime.sh examples` runs the examples alone.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "runtime: FAILED: $*"; exit 1; }

strip --strip-debug -o "$work/libhoming.so.0" "$library" || fail "no $library: run \`make runtime\`"
ln -s libhoming.so.0 "$work/libhoming.so"
make -s -C examples/runtime OUT="$work" LIBRARY="$work" || fail 'the examples do not build'
cd "$work"
for example in sum-c team-c sum-cpp sum-fortran; do
  [ -x $example ] || { echo "SKIPPED $example: its compiler is missing"; continue; }
  ./$example >$example.out 2>&1 || { cat $example.out; fail "$example"; }
  grep -q '^sum 499999500000$' $example.out || { cat $example.out; fail "$example: a wrong sum"; }
  grep -q '^homing: ' $example.out || { cat $example.out; fail "$example says nothing of homing"; }
  echo "ok $example: $(grep '^homing: ' $example.out)"
done
[ "${1:-}" != examples ] || exit 0

"$homing" lab run --topology 2x2 -- true 2>first.err
if [ $? -eq 3 ]; then
  echo "SKIPPED the lab's test of the library, which needs what is missing here: $(cat first.err)"
  exit 0
fi
gcc -O2 -Wall -Werror -I"$root/include" -o home "$root/tests/runtime/home.c" libhoming.so.0 -pthread '-Wl,-rpath,$ORIGIN' || exit 1
cp "$root/tests/runtime/guest.sh" .
. "$root/tests/in_lab.sh"
in_lab 300 --file home --file libhoming.so.0 -- sh ./guest.sh ||
  fail 'pages did not come home'

# Programs that know nothing of Homing, with GNU's and with LLVM's runtime of OpenMP.
cp "$root/tests/runtime/openmp.sh" .
cp libhoming.so.0 libhoming.so.engine
strip --strip-debug -o homing "$homing" && mkdir -p engine && mv libhoming.so.engine engine/libhoming.so || exit 1
make -s -C "$root/preload" OUT="$work/preload" || exit 1
compilers= files=
for compiler in gcc clang; do
  command -v $compiler >/dev/null && $compiler -O2 -fopenmp -o bands-$compiler "$root/tests/runtime/bands.c" 2>$compiler.err ||
    { echo "SKIPPED OpenMP of $compiler, which is missing or has no runtime: $(head -1 $compiler.err 2>/dev/null)"; continue; }
  compilers="$compilers $compiler" files="$files --file bands-$compiler"
done
in_lab 600 --file homing --file engine/libhoming.so --file preload/libhoming-gomp.so $files -- sh ./openmp.sh $compilers ||
  fail 'programs with OpenMP'
echo 'runtime: passed'
