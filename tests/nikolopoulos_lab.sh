#!/usr/bin/env bash
# The experiments of Nikolopoulos et al. 2000, section 5, in the lab: programs that begin with their pages placed well, in
# turn, or on one node, under no engine, the kernel's balancing, `homing run`, the library with the program's iterations,
# and `homing run --runtime`. The observer counts what misses a cache of each CPU; each miss is delayed by its latency.
# Tables compare those delays; the clock is the emulator's and the host's. Prints tables in Markdown (tests/nikolopoulos/table.py says what is in them).
# Ends with 1 where a bound of table.py is broken.
#
#   [OUT=DIR] [PARTS='starts rebind share'] [STARTS=single-node] [ENGINES='none run'] tests/nikolopoulos_lab.sh [PROGRAM...]
#
# What is in OUT is not run again. `make runtime-lab` runs all, an hour or two; `make bench-lab` one program, of two starts.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=$(realpath "${HOMING:-$PWD/target/release/homing}")
library=$(realpath "${HOMING_RUNTIME:-$PWD/target/release/libhoming.so}")
out=$(realpath -m "${OUT:-$PWD/build/runtime-lab}") failed=0
engines=${ENGINES:-none kernel run library runtime} parts=${PARTS:-starts rebind share}
mkdir -p "$out"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Program, options, cache, delay. An iteration takes the emulator about a second. Where delays are longer, an engine inside of
# the program is too slow for it: its own misses are delayed, too.
cases='cg -n,7000,-e,80,-i,20 128K 100
mg -n,64,-i,12 128K 50
sp -n,24,-i,14 128K 100
bt -n,20,-i,14 128K 100
adi -n,512,-i,14 128K 100
sorbyr -n,1024,-i,16 128K 100'
# Two programs that share the machine.
pairs='bt sp
bt bt
sp sp'

# Four nodes of three CPUs: two of each have a thread, one of the others is the engine's, as in the paper, and does not count.
places='{0},{1},{3},{4},{6},{7},{9},{10}'

. "$root/tests/in_lab.sh"
needs_lab 'what the lab counts'

# What goes into the guest.
mkdir -p "$work/lib/runtime" || exit 1
strip --strip-debug -o "$work/homing" "$homing" && strip --strip-debug -o "$work/libhoming.so.0" "$library" || exit 1
cp "$work/libhoming.so.0" "$work/lib/runtime/libhoming.so"
make -s -C preload OUT="$work/lib/preload" || exit 1
# Workloads that inform Homing of their iterations, and those that do not.
for kind in marked unmarked; do
  flags='-O2 -g'
  [ $kind = marked ] || flags="$flags -DWITHOUT_MARKS"
  make -s -C workloads OUT="$work/$kind" CFLAGS="$flags" "$work/$kind"/{cg,mg,sp,bt,adi,sorbyr} || exit 1
done
cd "$work" || exit 1
gcc -O2 -Wall -shared -fPIC -o marks.so "$root/tests/nikolopoulos/marks.c" || exit 1
gcc -O2 -Wall -shared -fPIC -DLIBRARY -I"$root/include" -o marks-library.so "$root/tests/nikolopoulos/marks.c" libhoming.so.0 \
  '-Wl,-rpath,$ORIGIN' || exit 1
cp "$root/tests/nikolopoulos/pair.sh" .

# guest NAME ENGINE LAB_OPTIONS... -- COMMAND...: runs a command under an engine in a machine of its own, unless that was
# done. Leaves NAME.counts (the observer's), .times (the iterations'), .line (the programs') and .summary in $out.
guest() {
  local name=$1 engine=$2 balancing=off marks=marks.so prefix=() options=() file
  shift 2
  [ ! -s "$out/$name.counts" ] || return 0
  case $engine in
    kernel) balancing=on options=(--env MARKS_AFTER=default) ;;
    run) prefix=(./homing run --engine-cpu 11 --bind auto --summary summary) ;;
    runtime) prefix=(./homing run --runtime --engine-cpu 11 --summary summary) ;;
    library) marks=marks-library.so options=(--env 'MARKS_SETTINGS=engine-cpu = 11') ;;
  esac
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  rm -f times* summary counts
  local run=(timeout -k 5 660 "$homing" lab run --nodes 4 --cpus 12 --balancing $balancing --thp never --interval 100ms --timeout 600s
    --env LD_PRELOAD="$work/$marks" --env HOMING_LIB="$work/lib" --env OMP_WAIT_POLICY=passive --file "$marks" --file libhoming.so.0
    --file lib --result summary --observe counts "${options[@]}" -- "${prefix[@]}" "$@")
  "${run[@]}" >line 2>err || { echo "$name:"; tail -5 err; return 1; } >&2
  for file in times* summary line err; do [ ! -e "$file" ] || mv "$file" "$out/$name.$file"; done
  mv counts "$out/$name.counts"
}

# One program; FROM is where its pages begin, REBIND the iteration after which its threads go elsewhere.
single() { # NAME ENGINE FROM REBIND PROGRAM OPTIONS CACHE SCALE
  local name=$1 engine=$2 from=$3 rebind=$4 program=$5 words=${6//,/ } init=serial kind=unmarked
  [ "$engine" != library ] || kind=marked
  [ "$from" != first-touch ] || init=parallel
  # shellcheck disable=SC2086 # options are words
  guest "$name" "$engine" --marked --cache "$7" --delay="$8" --result times --env MARKS="$work/times" --env "MARKS_PROGRAM=$program" \
    --env "MARKS_START=$from" --env "MARKS_REBIND=$rebind" --env OMP_PROC_BIND=true \
    --env OMP_NUM_THREADS=8 --env "OMP_PLACES=$places" \
    -- "$work/$kind/$program" $words --init "$init"
}

# Two programs, which first have a thread on each CPU, and after the fourth iteration half of the machine each.
both() { # NAME ENGINE FIRST SECOND
  local kind=unmarked
  [ "$2" != library ] || kind=marked
  guest "$1" "$2" --cache 128K --delay=100 --result times.1 --result times.2 --env OMP_NUM_THREADS=8 \
    -- sh ./pair.sh "$work/$kind/$3" "$work/$kind/$4"
}

echo "# made by tests/nikolopoulos_lab.sh"
while read -r program words cache scale; do
  [[ $# -eq 0 || " $* " == *" $program "* ]] || continue
  for engine in $engines; do
    [[ " $parts " != *" starts "* ]] || for from in ${STARTS:-first-touch round-robin single-node}; do
      single "$program.$from.$engine" "$engine" "$from" 0 "$program" "$words" "$cache" "$scale" </dev/null || failed=1
    done
    [[ " $parts " != *" rebind "* ]] ||
      single "$program.rebind.$engine" "$engine" first-touch 8 "$program" "${words%,*},16" "$cache" "$scale" </dev/null || failed=1
  done
done <<<"$cases"
[[ " $parts " != *" share "* ]] || while read -r first second; do
  for engine in $engines; do
    both "$first-$second.share.$engine" "$engine" "$first" "$second" </dev/null || failed=1
  done
done <<<"$pairs"
python3 "$root/tests/nikolopoulos/table.py" "$out" || failed=1
exit $failed
