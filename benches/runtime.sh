#!/usr/bin/env bash
# What libhoming costs a program where nothing needs to move: CPU time of 12 workloads with `homing run --runtime`, and
# with the library started by the program, beside runs without, in pairs. First on this machine (with one node the
# engine only says so), then in the lab, on four nodes, with the engine at work and pages at home. Then the time from the
# start of a program to its main, and its memory. Prints tables in Markdown.
#
#   [PAIRS=11] [LAB_PAIRS=3] [PARTS='here lab start'] benches/runtime.sh
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=${HOMING:-$PWD/target/release/homing} library=${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}
workloads=${WORKLOADS:-$PWD/build/workloads}
export OMP_WAIT_POLICY=passive OMP_PROC_BIND=true
here=(
  'adi -n 384 -i 300' 'cg -n 14000 -i 2400' 'mg -n 32 -i 900' 'fft -n 65536 -i 220' 'sorbyr -n 512 -i 3000'
  'hashserver -n 131072 -i 16' 'is -n 1000000 -i 170' 'life -n 512 -i 2500' 'matmult -n 600 -i 14'
  'stream -n 1000000 -i 450' 'gauss -n 400 -i 34' 'particles -n 30000 -i 370'
)
# Fewer rounds: machines of the lab are emulated.
lab=(
  'adi -n 192 -i 300' 'cg -n 4000 -i 3000' 'mg -n 16 -i 1500' 'fft -n 8192 -i 300' 'sorbyr -n 256 -i 1500'
  'hashserver -n 32768 -i 40' 'is -n 100000 -i 150' 'life -n 256 -i 2000' 'matmult -n 240 -i 16'
  'stream -n 100000 -i 800' 'gauss -n 240 -i 24' 'particles -n 10000 -i 200'
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lib/runtime"
strip --strip-debug -o "$work/lib/runtime/libhoming.so" "$library"
strip --strip-debug -o "$work/homing" "$homing"
make -s -C preload OUT="$work/lib/preload"
gcc -O2 -o "$work/pairs" benches/pairs.c
ln -s lib/runtime/libhoming.so "$work/libhoming.so.0"
gcc -O2 -shared -fPIC -Iinclude -o "$work/starts.so" benches/starts.c "$work/libhoming.so.0" '-Wl,-rpath,$ORIGIN'
cp -L "$work/libhoming.so.0" "$work/so" && mv -f "$work/so" "$work/libhoming.so.0"
for program in "${here[@]}"; do cp "$workloads/${program%% *}" "$work/"; done
cd "$work"

head() { printf '\n%s\n\n| workload | CPU s without | with | ratio, median | range |\n|---|---|---|---|---|\n' "$1"; }

# rows HOW PAIRS THREADS PROGRAMS...: the table of one way to have the library.
rows() {
  local how=$1 pairs=$2 threads=$3 program
  shift 3
  for program in "$@"; do
    # shellcheck disable=SC2086
    case $how in
    run) echo "./pairs ${program%% *} $pairs ./$program -t $threads -- ./homing run --quiet --runtime -- ./$program -t $threads" ;;
    linked) echo "./pairs ${program%% *} $pairs ./$program -t $threads -- env LD_PRELOAD=$PWD/starts.so ./$program -t $threads" ;;
    esac
  done
}

median() { sort -n | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'; }

# starts COMMAND...: the median milliseconds until main begins, and KiB resident there.
starts() {
  local times=() sizes=() begin time size
  for _ in $(seq 31); do
    begin=$(./pairs main | cut -d' ' -f1)
    read -r time size < <("$@" ./pairs main 2>/dev/null)
    times+=("$(((time - begin) / 1000))") sizes+=("$size")
  done
  printf '| `%s` | %s | %s |\n' "${*##*/}" "$(printf '%s\n' "${times[@]}" | median)" "$(printf '%s\n' "${sizes[@]}" | median)"
}

export HOMING_LIB=$work/lib
for part in ${PARTS:-here lab start}; do
  case $part in
  here)
    head 'On this machine, `homing run --runtime` (the CPU time of `homing` is among it):'
    rows run "${PAIRS:-11}" 2 "${here[@]}" | sh
    head 'On this machine, started by the program:'
    rows linked "${PAIRS:-11}" 2 "${here[@]}" | sh
    ;;
  lab)
    {
      echo 'export LD_LIBRARY_PATH=$PWD STARTS=starts.txt'
      rows linked "${LAB_PAIRS:-3}" 8 "${lab[@]}" | sed "s#$PWD/##; s#LD_PRELOAD=#LD_PRELOAD=./#"
      echo 'echo; cat starts.txt'
    } >guest.sh
    head 'In the lab, started by the program, the engine at work:'
    files=()
    for program in "${lab[@]}"; do files+=(--file "${program%% *}"); done
    "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --timeout 20m "${files[@]}" --file pairs --file starts.so \
      --file libhoming.so.0 -- sh ./guest.sh
    ;;
  start)
    printf '\nFrom a process to its main, after that of a plain program (a process of the shell before each):\n\n| | us | KiB resident |\n|---|---|---|\n'
    starts env
    starts env LD_PRELOAD="$work/lib/preload/libhoming-gomp.so $work/lib/runtime/libhoming.so"
    starts ./homing run --quiet --runtime --
    starts ./homing rset exec all --memory striped --
    ;;
  esac
done
