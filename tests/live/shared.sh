#!/bin/sh
# Runs inside the lab, as root: memory that several processes share goes home for all of them, unless a process outside maps it.
. ./wait.sh

# Processes that share memory, each on a slice of its own: three quarters of it begin away from home.
first_named() { for p in /proc/[0-9]*; do read -r n 2>/dev/null <"$p/comm" && [ "$n" = "$1" ] && echo "${p#/proc/}"; done | sort -n | head -n 1; }
shared_on() { # NODE PID: shared pages there
  grep 'slices\|SYSV\|/dev/zero\|memfd' "/proc/$2/numa_maps" 2>/dev/null | sed -n "s/.* N$1=\([0-9]*\).*/\1/p" | awk '{ n += $1 } END { print n + 0 }'
}
shared_home() { [ "$(shared_on 1 "$slices")" -ge 100 ] && [ "$(shared_on 2 "$slices")" -ge 100 ] && [ "$(shared_on 3 "$slices")" -ge 100 ]; }
# shares KIND: 512 pages of that kind, 128 of which belong on each node, must go there.
shares() {
  what="shared memory, $1"
  ./homing run --source hint-faults --quiet --summary shared.json -- ./slices "$1" 8 64 3600 >shared.out 2>shared.err & engine=$!
  begun() { slices=$(first_named slices); [ -n "$slices" ]; }
  until_true begun && until_true shared_home && ok "$what: pages are at home" ||
    not_ok "$what" "pages on the nodes: $(for n in 0 1 2 3; do shared_on $n "$slices"; done | tr '\n' ' ')" shared.err
  kill -TERM "$slices"
  wait $engine
  right shared.out && ok "$what: data are right" || not_ok "$what" 'wrong data' shared.out
}
for kind in posix sysv memfd anonymous; do shares $kind; done
# Pages of files stay, and are told.
mkdir -p files && mount -t ramfs none files
timeout 20 ./homing run --source hint-faults --quiet --summary file.json -- ./slices "$PWD/files/slices" 8 64 8 >file.out 2>file.err
grep -q '"memory": ".*/files/slices"' file.json && grep -q 'of files are not moved' file.json && right file.out && ok 'a file: it stays, and is told' ||
  not_ok 'a file' "$(grep -A 8 staying_memory file.json | tr -d '\n')" file.err
umount files

# As long as a process outside maps the memory, it stays, and the summary says who.
./slices posix 8 64 3600 >shared.out & slices=$!
there() { [ -e /dev/shm/homing-slices ] && [ "$(shared_on 0 $slices)" -ge 500 ]; }
until_true there
./slices watch posix 3600 >watch.out & outside=$!
until_true grep -q ready watch.out
children=$(cat /proc/$slices/task/*/children)
./homing attach --source hint-faults --quiet --summary outside.json --for 15s --pid $slices $(for c in $children; do echo "--pid $c"; done) 2>outside.err
[ "$(shared_on 0 $slices)" -ge 500 ] && grep -q "slices ($outside)" outside.json && ok 'shared memory, a process outside: it stays, and is told' ||
  not_ok 'shared memory, a process outside' "$(shared_on 0 $slices) of 512 pages on node 0; $(grep -A 8 staying_memory outside.json | tr -d '\n')" outside.err
kill $outside
wait $outside 2>/dev/null
./homing attach --source hint-faults --quiet --pid $slices $(for c in $children; do echo "--pid $c"; done) 2>outside.err & engine=$!
until_true shared_home && ok 'shared memory, without it: pages are at home' || not_ok 'shared memory, without it' 'no pages at home' outside.err
kill -TERM $engine
wait $engine
kill -TERM $slices
wait $slices
right shared.out && ok 'shared memory, attached: data are right' || not_ok 'shared memory, attached' 'wrong data' shared.out

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
