#!/bin/sh
# Runs inside the lab, as root, on four nodes: programs with libhoming under filters of system calls run as without it,
# and say what is missing.
failed=0
check() { # STATUS WORDS FILTER CALLS: what homing_start, or homing_rset_alloc (status `set`), comes to under that filter
  wanted=$1 words=$2 action=$3 calls=$4
  out=$(./filter "$action" "$calls" ./confined 2>&1)
  ended=$?
  case $wanted in set) line=': set' ;; *) line=": status $wanted" ;; esac
  if [ $ended -eq 0 ] && echo "$out" | grep -q "^confined$line: .*$words" && echo "$out" | grep -q '^confined: sum 196608$'
  then echo "ok $action $calls: $out"
  else failed=1; echo "not ok $action $calls: status $ended, expected $wanted and $words: $out"; fi
}
check 0 '' EPERM signalfd
check 0 '' kill signalfd,mbind
check set 'the kernel does not bind' EPERM mbind
check set 'kills it for mbind' kill mbind
check set 'allocates' EPERM move_pages
check 2 'refuses move_pages' EPERM move_pages
check 2 'refuses move_pages' ENOSYS move_pages
for call in move_pages set_mempolicy get_mempolicy perf_event_open sched_setaffinity pidfd_open tgkill; do
  check 2 "kills it for $call" kill $call
done
for refusal in EPERM ENOSYS; do
  check 2 'refuses perf_event_open' $refusal perf_event_open
  for call in set_mempolicy get_mempolicy; do check 2 "refuses $call" $refusal $call; done
  for call in sched_setaffinity pidfd_open tgkill; do check 0 '' $refusal $call; done
done
exit $failed
