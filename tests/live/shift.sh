#!/bin/sh
# Runs inside the lab, as root: `bands 8 64`, whose pages begin on one node, under a session or in the scope of a daemon. When its pages
# are home its threads go on to other nodes, and when its pages have followed it ends. What was done is counted from outside. The session's
# log is checked: a fresh session that is told the same must ask for the same.
#
#   shift.sh session|daemon
. ./wait.sh
rm -f pid bands.out engine.err
# The program and the number that it is known by.
program() { echo 'echo $$ >pid; exec ./bands 8 64 3600 2 >bands.out'; }
case $1 in
session)
  journal=session.log
  export HOMING_LIB=$PWD
  ./homing run --source hint-faults --quiet --tee $journal --summary summary.json -- sh -c "$(program)" 2>engine.err & engine=$!
  ;;
daemon)
  group=/sys/fs/cgroup/served journal=journals/served.journal
  mkdir $group journals
  printf 'source = "hint-faults"\njournals = "journals"\n[scope.served]\ncgroup = "served"\n' >daemon.toml
  ./homing daemon --config daemon.toml 2>engine.err & engine=$!
  until_true grep -q begins engine.err
  sh -c "echo \$\$ >$group/cgroup.procs; $(program)" & served=$!
  ;;
esac

status=0
# Of 512 pages three quarters begin away from home; when the threads have moved, all of them are.
until_true has_landed $journal 365 || { echo "only $(landed $journal) pages came home" >&2; status=1; }
# The program has the preloaded library, and started its helper itself: no code was injected, which would be executable without a file.
if [ $1 = session ]; then
  maps=/proc/$(cat pid)/maps
  grep -q /libhoming-scan.so $maps && ! grep -q ' r-xp .* 00:00 0 *$' $maps || { echo 'the helper was injected' >&2; cat $maps >&2; status=1; }
fi
sleep 2
before=$(landed $journal)
kill -USR1 "$(cat pid)"
until_true has_landed $journal $((before + 490)) || { echo "only $(($(landed $journal) - before)) pages followed their threads" >&2; status=1; }
# Moves are counted, not pages: one that moved twice counts twice, and others may be away still. A pause after moves that did not
# pay lasts 10 s (docs/live.md, "What moves have brought"); that it was the reason when a quarter was late once is not proven.
sleep 14
kill -TERM "$(cat pid)"
[ $1 = session ] || { wait $served; kill -TERM $engine; }
wait $engine || status=1
# A fresh session is told the same and must do the same.
[ $1 = daemon ] || ./homing replay --check --json $journal >checked.json || status=1
cat bands.out
cat engine.err >&2
grep -q ' wrong=0$' bands.out && exit $status
