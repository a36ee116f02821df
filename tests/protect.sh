#!/usr/bin/env bash
# The source `protect`: programs do not notice windows, which a rehearsal makes in each of them, also where nothing can
# move; then, in the lab, a user without any right brings pages home by it. `tests/protect.sh native` leaves the lab out.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
workloads=${WORKLOADS:-$PWD/build/workloads}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "protect: FAILED: $*"; exit 1; }

strip --strip-debug -o "$work/libhoming.so.0" "$library" || fail "no $library: run \`make runtime\`"
cd "$work"
mkdir counts && chmod 755 .
rehearsed() { env LD_PRELOAD="$work/libhoming.so.0" HOMING_REHEARSE_PROTECT="$work/counts" "$@"; }
# A sum over all processes.
count() { cat counts/*.json | grep -o "\"$1\":[0-9]*" | cut -d: -f2 | awk '{s += $1} END {print s + 0}'; }

"$root/tests/runtime/programs.sh" env LD_PRELOAD="$work/libhoming.so.0" HOMING_REHEARSE_PROTECT="$work/counts" 2>programs.err ||
  { cat programs.err; fail 'programs whose pages are protected'; }
gcc -O1 -Wall -Werror -pthread -o notice "$root/tests/protect/notice.c" || exit 1
./notice 0.5 || fail 'notice as it is'
rehearsed ./notice 4 || fail 'a program noticed windows'
# Calls of windows that fail: every second protection, every third question to the threads.
before=$(count windows)
HOMING_FAIL=protect=ENOMEM/2,dispatch=EPERM/3 rehearsed ./notice 2 || fail 'a program noticed windows that failed'
[ "$(count windows)" -gt "$before" ] && cat counts/*.json | grep -q 'does not stop system calls (error 1)' || fail 'no call failed'
echo 'ok calls of windows that fail'
# Pages that the kernel does not give back at once, and never.
HOMING_FAIL=unprotect=ENOMEM/2 rehearsed ./notice 2 || fail 'a program noticed that pages came back late'
HOMING_FAIL=unprotect=ENOMEM/1 rehearsed timeout 120 ./notice 100 2>never.err
[ $? -eq 137 ] && grep -q 'does not give back pages that were protected (error 12): the program ends' never.err ||
  { cat never.err; fail 'pages never came back, and the program went on, or nothing said why it ended'; }
echo 'ok pages that do not come back'
gcc -O1 -Wall -Werror -pthread -o apart "$root/tests/protect/apart.c" || exit 1
for kind in helper ring registered area limit queued pending; do
  rehearsed timeout 120 ./apart $kind 3 || fail "a program noticed windows: apart $kind"
done
cat counts/*.json | grep -q 'gives no timer to ask a thread with (error 11)' || fail 'no timer was refused'
./apart calls 1 || fail 'apart calls as it is'
before=$(count windows)
rehearsed timeout 120 ./apart calls 10 || fail 'a call ended early'
echo "ok calls that do not end early: $(($(count windows) - before)) windows"
gcc -O1 -Wall -Werror -o handles "$root/tests/protect/handles.c" || exit 1
for turn in $(seq 200); do
  [ "$(rehearsed ./handles $((turn * 5000)) 2>&1)" = 'ok handles' ] || fail "a program that takes SIGSYS after $((turn * 5000)) turns"
done
echo 'ok programs that take SIGSYS'
# Capabilities belong to threads: the C library ends a program whose threads disagree about the user.
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
  for turn in $(seq 20); do
    rehearsed setpriv --reuid 65534 --clear-groups true || fail 'a program that gives up its rights'
  done
  echo 'ok programs that give up their rights'
else
  echo 'SKIPPED programs that give up their rights: not root'
fi
echo "programs: $(count windows) windows, $(count caught) faults caught, $(count waits) waits"

# Workloads check their own results; the result does not depend on the run.
same=0
for program in adi bsort cg cholesky fft gauss hashserver is kmerge life matmult mg particles pingpong qsort sorbyr stream; do
  [ -x "$workloads/$program" ] || fail "no $workloads/$program: run \`make workloads\`"
  case $program in
  adi) size='-n 300 -i 30' ;; cg) size='-n 4000 -i 60' ;; cholesky) size='-n 384 -i 4' ;; fft) size='-n 65536 -i 10' ;;
  gauss) size='-n 300 -i 10' ;; hashserver) size='-n 65536 -i 10' ;; life) size='-n 512 -i 60' ;; matmult) size='-n 250 -i 4' ;;
  mg) size='-n 64 -i 10' ;; pingpong) size='-n 64 -i 400' ;; sorbyr) size='-n 500 -i 60' ;; *) size='-n 100000 -i 6' ;;
  esac
  # shellcheck disable=SC2086
  "$workloads/$program" $size -t 2 >plain.out || fail "$program as it is"
  # shellcheck disable=SC2086
  rehearsed "$workloads/$program" $size -t 2 >under.out || { cat under.out; fail "$program under windows"; }
  result='s/ (seconds|residual|error|page_runs)=[^ ]*//g'
  cmp <(sed -E "$result" plain.out) <(sed -E "$result" under.out) || fail "$program says something else"
  same=$((same + 1))
done
echo "workloads: $same as before; in all $(count windows) windows ($(count early) ended early), $(count caught) faults caught"
[ "$(count windows)" -ge 50 ] && [ "$(count caught)" -ge 1000 ] || { cat counts/*.json; fail 'hardly any window'; }
[ "${1:-}" != native ] || exit 0

. "$root/tests/in_lab.sh"
needs_lab "the lab's test of protect"
strip --strip-debug -o homing "$homing" || exit 1
ln -s libhoming.so.0 libhoming.so
gcc -O2 -Wall -Werror -I"$root/include" -o home "$root/tests/runtime/home.c" libhoming.so.0 -pthread '-Wl,-rpath,$ORIGIN' || exit 1
gcc -O2 -Wall -Werror -o nobody "$root/tests/protect/nobody.c" || exit 1
mkdir -p lib/runtime && cp libhoming.so.0 lib/runtime/libhoming.so && make -s -C "$root/preload" OUT="$work/lib/preload" || exit 1
gcc -O2 -Wall -Werror -pthread -o plain "$root/tests/protect/plain.c" || exit 1
cp "$root/tests/protect/guest.sh" .
lab_job protect 600 --file home --file plain --file nobody --file libhoming.so.0 --file homing --file lib -- sh ./guest.sh
lab_jobs "${lab_quiet[@]}" || fail 'pages did not come home without rights'
echo 'protect: passed'
