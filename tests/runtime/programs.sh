#!/usr/bin/env bash
# Ordinary programs print the same, and end with the same status, under what Homing loads into programs:
# tests/runtime/programs.sh COMMAND... runs each as it is and behind COMMAND, such as `homing run --quiet --runtime
# --`. The workloads are among them where they are built (build/workloads, or WORKLOADS).
set -uo pipefail
root=$(realpath "$(dirname "$0")/../..")
workloads=${WORKLOADS:-$root/build/workloads}
. "$root/workloads/small.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work"
seq 1 2000 | sed 's/$/ some words/' >text
printf 'int main(void) { return 3; }\n' >three.c
printf 'all:\n\t@echo made; echo it\n' >Makefile
printf 'class A { public static void main(String[] a) { System.out.println("java"); } }\n' >A.java
printf 'package main\nimport "fmt"\nfunc main() {\n c := make(chan int)\n for i := 0; i < 4; i++ { go func() { c <- len(make([]byte, 1<<20)) }() }
 s := 0\n for i := 0; i < 4; i++ { s += <-c }\n fmt.Println(s)\n}\n' >a.go
printf '#include <iostream>\n#include <thread>\nint main() { std::thread([] { std::cout << "c++\\n"; }).join(); }\n' >a.cpp
printf 'fn main() { println!("{}", std::thread::spawn(|| vec![1u8; 1 << 20].len()).join().unwrap()); }\n' >a.rs
printf 'print *, "fortran"\nend\n' >a.f90
printf 'create table t(a, b);\nbegin;\n%s\ncommit;\ncreate index i on t(b);\nselect count(*), sum(a) from t where b > "b5";\n' \
  "$(seq 1 3000 | awk '{print "insert into t values(" $1 ", \"b" $1 "\");"}')" >a.sql
cat >redis.sh <<'END'
folder=$(mktemp -d)
redis-server --port 0 --unixsocket $folder/socket --save '' --dir $folder --logfile $folder/log >$folder/out 2>&1 &
for try in $(seq 100); do redis-cli -s $folder/socket ping >/dev/null 2>&1 && break; sleep 0.1; done
seq -f 'set key%g value%g' 1 2000 | redis-cli -s $folder/socket | sort | uniq -c
redis-cli -s $folder/socket get key77; redis-cli -s $folder/socket dbsize; redis-cli -s $folder/socket shutdown nosave
wait; echo status $?; rm -rf $folder
END
# The server refuses to work for root.
cat >postgres.sh <<'END'
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1) folder=$(mktemp -d) as=
[ $(id -u) -ne 0 ] || { chown 65534 $folder; as='setpriv --reuid 65534 --clear-groups'; }
cd $folder
$as $bin/initdb --no-sync -A trust -D $folder/data >$folder/log 2>&1; echo status $?
printf 'create table t as select i, md5(i::text) m from generate_series(1, 20000) i;\nselect count(*), min(m), max(m) from t;\n' |
  $as $bin/postgres --single -D $folder/data postgres 2>>$folder/log | grep -v '^backend>'
cd /; rm -rf $folder
END
programs=(
  'sh -c "echo a; exit 5"' 'bash -c "for i in 1 2 3; do echo \$i; done | tac"' 'dash -c "(echo b) & wait"' 'cat text' 'sort -r text'
  'awk "{s += \$1} END {print s}" text' 'sed -n 5,9p text' 'grep -c 7 text' 'find . -name "t*"' 'tar cf - text | md5sum'
  'gzip -c text | gzip -d | md5sum' 'xz -T2 -c text | xz -dc | md5sum' 'md5sum text' 'head -c 100 text' 'env true' 'timeout 5 echo c'
  'gcc -O1 -o three three.c && ./three' 'make -s' 'python3 -c "import threading, subprocess; print(subprocess.run([\"echo\", \"d\"]).returncode)"'
  'perl -e "print 1 + 1"' 'git --version' 'node -e "console.log(1)"' 'java A.java' 'openssl version' 'sqlite3 :memory: "select 1;"'
  'bc -q <<<"2^64"' 'xargs -P 4 -n 1 echo <<<"e e e e"' 'ldd --version | head -1' 'nice -n 1 echo f' 'setsid -w echo g' 'strace -V | head -1'
  'gdb --version | head -1' 'kill -9 $$'
  'go run a.go' 'g++ -O1 -pthread -o cpp a.cpp && ./cpp' 'clang -O1 -o three three.c && ./three' 'gfortran -o fortran a.f90 && ./fortran'
  'rustc -O -o rust a.rs && ./rust' 'sqlite3 base.db <a.sql; rm -f base.db' 'python3 -c "import sqlite3, multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))"'
)
command -v redis-server >/dev/null && programs+=('sh redis.sh')
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && programs+=('sh postgres.sh')
if [ -d "$workloads" ]; then
  for name in $(make -s -C "$root/workloads" list); do
    # The number of threads is given, what is left out are times and last digits.
    programs+=("OMP_WAIT_POLICY=passive $workloads/$name $(small "$name") -t 2 | sed -E 's/ (seconds|error|residual)=[^ ]*//g'")
  done
else echo "SKIPPED the workloads, which are not built: no $workloads"; fi
same=0 failed=0 skipped=0
for program in "${programs[@]}"; do
  [[ $program == OMP_* ]] || command -v "${program%% *}" >/dev/null || { echo "SKIPPED ${program%% *}, which is not here"; skipped=$((skipped + 1)); continue; }
  bash -c "$program" >plain.out 2>plain.err </dev/null; plain=$?
  "$@" bash -c "$program" >under.out 2>under.err </dev/null; under=$?
  if [ $plain -eq $under ] && cmp -s plain.out under.out && diff plain.err under.err >differs; then
    same=$((same + 1))
  else
    echo "not ok $program: status $plain, now $under"; diff plain.out under.out | head -5; head -5 differs; failed=$((failed + 1))
  fi
done
echo "programs: $same as before, $failed otherwise, $skipped skipped"
[ $failed -eq 0 ]
