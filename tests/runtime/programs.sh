#!/usr/bin/env bash
# Ordinary programs print the same, and end with the same status, under what Homing loads into programs:
# tests/runtime/programs.sh COMMAND... runs each as it is and behind COMMAND, such as `homing run --quiet --runtime
# --`.
set -uo pipefail
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work"
seq 1 2000 | sed 's/$/ some words/' >text
printf 'int main(void) { return 3; }\n' >three.c
printf 'all:\n\t@echo made; echo it\n' >Makefile
printf 'class A { public static void main(String[] a) { System.out.println("java"); } }\n' >A.java
programs=(
  'sh -c "echo a; exit 5"' 'bash -c "for i in 1 2 3; do echo \$i; done | tac"' 'dash -c "(echo b) & wait"' 'cat text' 'sort -r text'
  'awk "{s += \$1} END {print s}" text' 'sed -n 5,9p text' 'grep -c 7 text' 'find . -name "t*"' 'tar cf - text | md5sum'
  'gzip -c text | gzip -d | md5sum' 'xz -T2 -c text | xz -dc | md5sum' 'md5sum text' 'head -c 100 text' 'env true' 'timeout 5 echo c'
  'gcc -O1 -o three three.c && ./three' 'make -s' 'python3 -c "import threading, subprocess; print(subprocess.run([\"echo\", \"d\"]).returncode)"'
  'perl -e "print 1 + 1"' 'git --version' 'node -e "console.log(1)"' 'java A.java' 'openssl version' 'sqlite3 :memory: "select 1;"'
  'bc -q <<<"2^64"' 'xargs -P 4 -n 1 echo <<<"e e e e"' 'ldd --version | head -1' 'nice -n 1 echo f' 'setsid -w echo g' 'strace -V | head -1'
  'gdb --version | head -1' 'kill -9 $$'
)
same=0 failed=0 skipped=0
for program in "${programs[@]}"; do
  command -v "${program%% *}" >/dev/null || { echo "SKIPPED ${program%% *}, which is not here"; skipped=$((skipped + 1)); continue; }
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
