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
for example in sum-c team-c sum-cpp sum-fortran team-fortran; do
  [ -x $example ] || { echo "SKIPPED $example: its compiler is missing"; continue; }
  ./$example >$example.out 2>&1 || { cat $example.out; fail "$example"; }
  grep -q '^sum 499999500000$' $example.out || { cat $example.out; fail "$example: a wrong sum"; }
  grep -q '^homing: ' $example.out || { cat $example.out; fail "$example says nothing of homing"; }
  echo "ok $example: $(grep '^homing: ' $example.out)"
done

# A set of the user's own file; nothing of the environment where the program has the rights of another.
gcc -O1 -Wall -Werror -I"$root/include" -o secure "$root/tests/runtime/secure.c" libhoming.so.0 "-Wl,-rpath,$work" || exit 1
chmod 755 . libhoming.so.0 && mkdir -p config/homing && printf '[set.mine]\nexpr = "all"\n' >config/homing/rsets.toml
export XDG_CONFIG_HOME=$work/config
said=$(timeout 60 ./secure)
case $said in
opened)
  if [ "$(id -u)" -eq 0 ] && chmod u+s secure && [ "$(setpriv --reuid 65534 --regid 65534 --clear-groups stat -c %u secure)" = 0 ]; then
    said=$(setpriv --reuid 65534 --regid 65534 --clear-groups timeout 60 ./secure)
    case $said in refused:*mine*) echo 'ok set-user-ID: nothing of the environment' ;; opened)
      findmnt -no OPTIONS -T secure | grep -q nosuid || fail 'a set-user-ID program read a file of its caller'
      echo 'SKIPPED set-user-ID: this file system does not know it' ;; *) fail "set-user-ID: $said" ;; esac
    chmod u-s secure
  else
    echo 'SKIPPED set-user-ID: not root'
  fi ;;
*) echo "SKIPPED the user's own sets: $said" ;;
esac
rm config/homing/rsets.toml && mkfifo config/homing/rsets.toml
said=$(timeout 60 ./secure) || fail "a FIFO in the place of the user's own sets: it hangs"
case $said in opened) fail 'a FIFO is no file' ;; *) echo "ok a FIFO: $said" ;; esac
unset XDG_CONFIG_HOME

# An exception that leaves a function of a team ends the program.
if g++ -O1 -Wall -Werror -I"$root/include" -o throws "$root/tests/runtime/throws.cpp" libhoming.so.0 "-Wl,-rpath,$work" 2>throws.err; then
  (ulimit -c 0; timeout 60 ./throws) >throws.out 2>&1
  case $? in 134) echo 'ok an exception of a team ends the program' ;; 2) echo 'SKIPPED exceptions of teams: no set' ;;
  *) cat throws.out; fail 'an exception of a team' ;; esac
else
  echo "SKIPPED exceptions of teams: $(head -1 throws.err)"
fi
[ "${1:-}" != examples ] || exit 0

# What is loaded into programs: an engine inside of them, and resource sets.
mkdir -p lib/runtime && cp libhoming.so.0 lib/runtime/libhoming.so && make -s -C "$root/preload" OUT="$work/lib/preload" || exit 1
export HOMING_LIB=$work/lib
"$root/tests/runtime/programs.sh" "$homing" run --quiet --runtime -- 2>programs.err || { cat programs.err; fail 'programs with an engine inside'; }
"$root/tests/runtime/programs.sh" "$homing" rset exec all --memory striped --threads fill -- 2>programs.err ||
  { cat programs.err; fail 'programs in a resource set'; }

# Programs with OpenMP that know nothing of Homing, with GNU's runtime and with LLVM's.
compilers= files=
for compiler in gcc clang; do
  command -v $compiler >/dev/null && $compiler -O2 -fopenmp -o bands-$compiler "$root/tests/runtime/bands.c" 2>$compiler.err ||
    { echo "SKIPPED OpenMP of $compiler, which is missing or has no runtime: $(head -1 $compiler.err 2>/dev/null)"; continue; }
  compilers="$compilers $compiler" files="$files --file bands-$compiler"
  $compiler -O2 -fopenmp -fPIC -shared -o libinside-$compiler.so "$root/tests/runtime/inside.c" || exit 1
  gcc -O2 -o opens "$root/tests/runtime/opens.c" -ldl || exit 1
  $compiler -O2 -fopenmp -o forks-$compiler "$root/tests/runtime/forks.c" || exit 1
  for what in "opens ./libinside-$compiler.so 50" "forks-$compiler 50" "bands-$compiler 4 50 0"; do
    OMP_NUM_THREADS=2 ./$what >plain.out && OMP_NUM_THREADS=2 "$homing" run --runtime --summary inside.json -- ./$what >inside.out 2>inside.err ||
      { cat inside.err; fail "$what"; }
    case $what in bands*) ;; *) cmp plain.out inside.out || fail "$what prints something else" ;; esac
    [ "$(grep -c '"pid"' inside.json)" -eq 1 ] || { cat inside.json; fail "$what: not one process"; }
    found=$(sed -n 's/^    "iterations": \([0-9]*\),$/\1/p' inside.json)
    [ "${found:-0}" -ge 46 ] && [ "$found" -le 50 ] || { cat inside.err inside.json; fail "$what: $found iterations of 50"; }
    echo "ok $what: $found iterations of 50"
  done
done

# Regions as compilers made them before GCC 4.9.
if gcc -O2 -fopenmp -o old "$root/tests/runtime/old.c" 2>old.err; then
  OMP_NUM_THREADS=2 ./old 50 >plain.out && OMP_NUM_THREADS=2 "$homing" run --runtime --summary old.json -- ./old 50 >old.out 2>old.err ||
    { cat old.err; fail 'old regions'; }
  cmp plain.out old.out || fail 'a program with old regions prints something else'
  grep -q '^    "regions": 100,$' old.json && grep -q '^    "iterations": 48,$' old.json || { cat old.json; fail 'old regions'; }
  echo 'ok old regions: 48 iterations of 50'
fi

# A CPU of the engine's own is none of the program's.
cpus=$(nproc)
if [ "$cpus" -gt 1 ]; then
  cpu=$(taskset -cp $$ | sed 's/.*[^0-9]//')
  [ "$("$homing" run --quiet --runtime --engine-cpu "$cpu" -- nproc)" -eq $((cpus - 1)) ] || fail "--engine-cpu $cpu"
  "$homing" run --runtime --engine-cpu 9999 -- true 2>cpu.err
  [ $? -eq 2 ] && grep -q 'a CPU of this machine' cpu.err || { cat cpu.err; fail '--engine-cpu 9999'; }
  echo 'ok a CPU for the engine'
fi

. "$root/tests/in_lab.sh"
needs_lab "the lab's test of the library"
strip --strip-debug -o homing "$homing" || exit 1
gcc -O2 -Wall -Werror -I"$root/include" -o home "$root/tests/runtime/home.c" libhoming.so.0 -pthread '-Wl,-rpath,$ORIGIN' || exit 1
cp "$root/tests/runtime/guest.sh" "$root/tests/runtime/openmp.sh" .
lab_job library 300 --file home --file libhoming.so.0 -- sh ./guest.sh
# shellcheck disable=SC2086 # both are words
lab_job openmp 600 --file homing --file lib $files -- sh ./openmp.sh $compilers
lab_jobs "${lab_quiet[@]}"
[ "$(lab_status library)" = 0 ] || fail 'pages did not come home'
[ "$(lab_status openmp)" = 0 ] || fail 'programs with OpenMP'
echo 'runtime: passed'
