#!/bin/sh
# Runs inside the lab, as root, on four nodes of two CPUs each: programs in resource sets have their pages and threads
# where the set's policies want them. Prints a line a check, and fails if one fails.
export HOMING_LIB=$PWD
failed=0 checks=0
check() { # NAME COMMAND...
  name=$1; shift
  checks=$((checks + 1))
  if out=$("$@" 2>&1); then echo "ok $name"; else failed=1; echo "not ok $name: $out"; fi
}
exits() { # STATUS WORDS COMMAND...: ends with the status and says the words
  wanted=$1 words=$2; shift 2
  out=$("$@" 2>&1)
  status=$?
  echo "$out"
  [ $status -eq "$wanted" ] || { echo "status $status: expected $wanted"; return 1; }
  echo "$out" | grep -q "$words" || { echo "expected: $words"; return 1; }
}
once() { # WORDS COMMAND...: says the words in one line
  words=$1; shift
  [ "$("$@" 2>&1 | grep -c "$words")" = 1 ] || { "$@"; return 1; }
}
silent() { # COMMAND...: says nothing, and succeeds
  out=$("$@" 2>&1) && [ -z "$out" ] || { echo "$out"; return 1; }
}
confined() { # COMMAND...: in a cgroup with the CPUs of node 0 and the memory of nodes 0 and 1
  mkdir -p /sys/fs/cgroup/rset && echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control &&
    echo 0-1 >/sys/fs/cgroup/rset/cpuset.cpus && echo 0-1 >/sys/fs/cgroup/rset/cpuset.mems || return 1
  (sh -c 'echo $PPID' >/sys/fs/cgroup/rset/cgroup.procs && exec "$@")
}
rset() { ./homing rset exec "$@"; }

check 'striped by pages' rset node:1-2 --memory striped -- ./where striped 1 1 2
check 'striped by 64K' rset node:1-2 --memory striped --stride 64K -- ./where striped 16 1 2
check 'striped over three nodes' rset 'node:0-1 | mem:3' --memory striped --stride 8K -- ./where striped 2 0 1 3
check 'remote' rset node:1-2 --memory remote -- ./where remote
check 'local' rset node:1-2 --memory local --threads round-robin -- ./where local
check 'float' rset node:3 -- ./where inside 3
check 'fill' rset node:1-2 --threads fill -- ./where threads 2 3 4 5
check 'round-robin' rset node:1-2 --threads round-robin -- ./where threads 2 4 3 5
check 'one-per-node' rset node:1-2 --threads one-per-node -- ./where threads 2 4
check 'huge pages' rset all --huge 2M -- ./where huge
check 'a child after fork' rset node:1-2 --memory striped --stride 64K -- ./where forked striped 16 1 2
check 'a child after fork is local' rset node:1-2 --memory local --threads round-robin -- ./where forked local
check 'many stripes are told once' once 'has stripes of 16384 instead of 8192 bytes' \
  rset all --memory striped --stride 8K -- ./where many together
check 'large memory by pages' silent rset all --memory striped -- ./where many apart
check 'a shell keeps the set' rset node:1-2 --memory striped --stride 64K -- sh -c './where striped 16 1 2'
check 'a set in a set' rset node:1-2 --memory striped -- ./homing rset exec node:2 -- ./where inside 2
check 'a set by name' rset both --file sets.toml -- ./where striped 2 1 2
check 'status' exits 7 '' ./homing rset exec node:1 -- sh -c 'exit 7'
check 'a static program is told' exits 0 'busybox is linked statically' rset node:1 --memory local -- busybox true
check 'no node' exits 2 'there is no node 9: expected some of 0-3' ./homing rset exec node:9 -- true
check 'no other node' exits 2 'cannot be remote' ./homing rset exec node:1 --memory remote -- true
check 'outside of the affinity' exits 2 'what is left is cpu:2 | mem:1-2' \
  taskset 4 ./homing rset exec node:1-2 -- true
check 'outside of the cpuset' exits 2 'may not use cpu:2-3 of the set.* what is left is mem:1' confined ./homing rset exec node:1 -- true
check 'all of a cpuset' confined ./homing rset exec all --memory striped --stride 64K -- ./where striped 16 0 1
check 'outer set' exits 2 'may not use cpu:0-1' rset node:1 -- ./homing rset exec node:0 -- true
check 'libhoming' ./library
check 'list' exits 0 'both .*2-5 *1-2' ./homing rset list --file sets.toml
check 'show' exits 0 'node:1-2' ./homing rset show both --file sets.toml
[ $failed -eq 0 ] && echo "rset: $checks checks passed"
exit $failed
