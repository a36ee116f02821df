#!/usr/bin/env bash
# Programs behave with libhoming, and with what Homing preloads, as they do without: beside other allocators, with more
# rights than their user, confined by seccomp, built with sanitizers, with children, signals and libraries of their own.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "safety: FAILED: $*"; exit 1; }
checks=0
same() { # NAME FILE COMMAND...: prints what is in the file, nothing else, and ends with the status in FILE.status
  local name=$1 file=$2; shift 2
  # An error's name, not its number, where a signal ends it.
  timeout 120 "$@" >out 2>err </dev/null
  local status=$?
  checks=$((checks + 1))
  [ $status -eq "$(cat "$file.status")" ] && cmp -s "$file" out && [ ! -s err ] && return
  head -5 err; diff "$file" out | head -5
  fail "$name: status $status"
}
plain() { # FILE COMMAND...: what the command prints without Homing
  "${@:2}" >"$1" 2>/dev/null </dev/null
  echo $? >"$1.status"
}

mkdir -p "$work/lib/runtime" && strip --strip-debug -o "$work/lib/runtime/libhoming.so" "$library" || fail "no $library: run \`make runtime\`"
make -s -C preload OUT="$work/lib/preload" || exit 1
cd "$work"
export HOMING_LIB=$work/lib
ln -s lib/runtime/libhoming.so libhoming.so.0
for program in memory filter counted processes loads; do
  gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -o $program "$root/tests/safety/$program.c" -pthread -ldl || exit 1
done
gcc -std=gnu11 -O1 -Wall -Wextra -Werror -I"$root/include" -o confined "$root/tests/safety/confined.c" libhoming.so.0 -pthread '-Wl,-rpath,$ORIGIN' || exit 1
gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -fno-builtin -fPIC -shared -o early.so "$root/tests/safety/early.c" -pthread || exit 1
plain memory.out ./memory
plain processes.out ./processes
engine="$work/lib/preload/libhoming-gomp.so $work/lib/runtime/libhoming.so"
# Containers may forbid memory policies: then no program is run in a set.
in_set=(env)
if "$homing" rset exec all -- true 2>err; then
  in_set=("$homing" rset exec all --memory striped --stride 8K --threads fill --)
  sets="$work/lib/preload/libhoming-rset.so"
  export "$("${in_set[@]}" env | grep '^HOMING_RSET=')"
else
  echo "SKIPPED programs in resource sets: $(cat err)"
  sets=$engine
fi

# Children and signals.
for under in "${in_set[*]}" "$homing run --quiet --runtime --" "env LIBHOMING=$work/lib/runtime/libhoming.so"; do
  same "children under $under" processes.out $under ./processes
done
echo 'ok children and signals'

# Other allocators, before and after ours. What is preloaded last begins first: early.so allocates before ours has begun.
for allocator in libjemalloc.so.2 libmimalloc.so.2 libtcmalloc_minimal.so.4 "$work/early.so"; do
  LD_PRELOAD=$allocator ./counted >/dev/null 2>err; [ ! -s err ] || { echo "SKIPPED $allocator: $(head -1 err)"; continue; }
  for ours in "$sets" "$engine"; do
    for preload in "$ours $allocator" "$allocator $ours"; do
      same "$preload" memory.out env LD_PRELOAD="$preload" ./memory
      same "$preload, children" processes.out env LD_PRELOAD="$preload" ./processes
    done
  done
  echo "ok beside $(basename $allocator)"
done

# Nothing is allocated before main.
[ "$(COUNTED=1 LD_PRELOAD=./early.so ./counted)" = 'counted: by early.c, 1 allocations before main' ] || fail 'allocations are not counted'
for ours in "$sets" "$engine" "$work/lib/preload/libhoming-scan.so"; do
  [ -e "${ours##* }" ] || continue
  counted=$(LD_PRELOAD="$ours ./early.so" ./counted)
  [ "$counted" = 'counted: by early.c, 0 allocations before main' ] || fail "$ours: $counted"
done
echo 'ok nothing is allocated before main'

# The library is opened and closed; libraries with much thread-local memory are opened beside it.
./loads lib/runtime/libhoming.so 1000 || fail 'dlopen and dlclose'
for bytes in 64 512 1024 1400 1600; do gcc -DBYTES=$bytes -shared -fPIC -o tls-$bytes.so "$root/tests/safety/tls.c" || exit 1; done
plain tls.out ./loads tls ./tls-*.so
for ours in "$sets" "$engine"; do same "thread-local memory beside $ours" tls.out env LD_PRELOAD="$ours" ./loads tls ./tls-*.so; done
echo 'ok dlopen, dlclose, thread-local memory'

# Filters of system calls: one that the program was started with, or that it makes itself.
plain late-prctl.out ./memory late-prctl
for action in EPERM ENOSYS kill; do
  for ours in "$sets" "$engine"; do
    same "$action, $ours" memory.out env LD_PRELOAD="$ours" ./filter $action mbind,set_mempolicy,sched_setaffinity,getcpu,move_pages ./memory
  done
done
for late in late-prctl late-syscall; do same $late late-prctl.out env LD_PRELOAD="$sets" ./memory $late; done
[ "$(cat late-prctl.out.status)" -eq 0 ] || fail 'the filter kills the program itself'
echo 'ok filters of system calls'

# A program with more rights than its user gets no library by its environment, and the library that it is linked with
# does nothing.
chmod 755 "$work"
cp memory setuid-memory; cp confined setuid-confined
for program in setuid-memory setuid-confined; do
  gcc -std=gnu11 -O1 -w -I"$root/include" -o $program "$root/tests/safety/${program#setuid-}.c" libhoming.so.0 -pthread "-Wl,-rpath,$work" || exit 1
done
if [ "$(id -u)" -eq 0 ] && chmod u+s setuid-memory setuid-confined 2>/dev/null && [ "$(setpriv --reuid 65534 --clear-groups ./setuid-confined | grep -c '^confined: status 4: ')" -eq 1 ]; then
  env LD_PRELOAD="$sets" setpriv --reuid 65534 --clear-groups ./setuid-memory maps >out 2>&1
  grep -v '^loaded libhoming.so' out | cmp -s - memory.out || { cat out; fail 'a set-user-ID program'; }
  echo 'ok programs with more rights'
else
  echo "SKIPPED programs with more rights than their user: not root, or the folder $work ignores them"
fi

. "$root/tests/safety/sanitizers.sh"

echo "safety: $checks comparisons passed"
. "$root/tests/in_lab.sh"
needs_lab "the lab's test of confined programs"
cp "$root/tests/safety/guest.sh" .
lab_job confined 600 --file filter --file confined --file libhoming.so.0 -- sh ./guest.sh
lab_jobs "${lab_quiet[@]}" || fail 'confined programs'
echo 'safety: passed'
