#!/usr/bin/env bash
# The verdict of `homing why` on programs with one planted cause each, or none (tests/why/cases). Each is recorded for
# real and diagnosed on four sockets with small caches. Where a program is mended, too, the gain that was predicted for
# its section (tests/why/section.h) is held against the modelled time of the mended program's own trace. How often lines
# travel is counted a second time, by tests/why/lines.py. `tests/why.sh NAME...` runs only these.
set -uo pipefail
cd "$(dirname "$0")/.."

homing=${HOMING:-target/release/homing}
out=build/why
mkdir -p "$out"
# The distribution's own, as other tests take it; a shim of a version manager does as well.
python=$(command -v /usr/bin/python3 || command -v python3)
passed=0 failed=0

compile() { # name source flags -> the command line
  local source=tests/why/$2 flags=(-O1 -g -fopenmp -pthread)
  [[ $3 == - || $2 == *.py ]] || flags+=("$3")
  case $2 in
    *.c) gcc "${flags[@]}" "$source" -o "$out/$1" && command=("$out/$1") ;;
    *.cpp) g++ "${flags[@]}" "$source" -o "$out/$1" && command=("$out/$1") ;;
    *.f90) gfortran -cpp "${flags[@]}" "$source" -o "$out/$1" && command=("$out/$1") ;;
    *.py) command=("$python" "$source"); [[ $3 == - ]] || command+=("$3") ;;
  esac
}

why() { # name: its diagnosis; 5: what was recorded does not tell
  "$homing" why "$out/$1.trace" --machine tests/why/small-caches.toml --json > "$out/$1.json"
  local status=$?
  [[ $status == 0 || ($status == 5 && $(grep -c '"verdict": "not-known"' "$out/$1.json") == 1) ]]
}

judge() { # name expected area
  python3 - "$out/$1.json" "$2" "$3" <<'PY'
import json, sys
path, expected, area = sys.argv[1:]
report = json.load(open(path))
first = next((a.get("name") or "" for a in report["areas"] if a.get("remedy")), "")
gain = report["gain"]
print(f'{report["verdict"]}: {100 * gain["low"]:.0f} to {100 * gain["high"]:.0f} %, {first}')
wrong = report["verdict"] not in expected.split(",") or (area != "-" and area not in first)
sys.exit(wrong or not 0 <= gain["low"] <= gain["high"] <= 1)
PY
}

section() { # name source: the diagnosis of the section alone, where the program marks one
  grep -q section.h "tests/why/$2" || return 0
  "$homing" why "$out/$1.trace" --machine tests/why/small-caches.toml --phase section --json > "$out/$1.section.json"
}

mended() { # name: how much less time the mended program takes, where NAME is one
  local broken=$out/${1%-fixed}.section.json
  [[ $1 == *-fixed && -s $broken && -s $out/$1.section.json ]] || return 0
  python3 tests/why/mended.py "$broken" "$out/$1.section.json"
}

lines() { # name: how often its lines travel
  [[ $1 == counters || $1 == ticket ]] || return 0
  "$homing" trace export "$out/$1.trace" | python3 tests/why/lines.py "$out/$1.json" "$1" 4
}

rm -f "$out"/*.json
while read -r name source flags expected area options; do
  [[ -z $name || $name == \#* ]] && continue
  [[ $# -gt 0 && " $* " != *" $name "* ]] && continue
  command=()
  # shellcheck disable=SC2086 # options are words
  if compile "$name" "$source" "$flags" \
    && OMP_NUM_THREADS=4 OMP_PROC_BIND=true "$homing" record -q $options -o "$out/$name.trace" -- "${command[@]}" \
    > "$out/$name.out" 2>&1 \
    && why "$name" \
    && line=$(judge "$name" "$expected" "$area") \
    && section "$name" "$source" \
    && line+=$(mended "$name") \
    && line+=$(lines "$name"); then
    echo "ok   $name: $line"
    passed=$((passed + 1))
  else
    echo "FAIL $name: expected $expected with ${area}; ${line:-see $out/$name.out}"
    failed=$((failed + 1))
  fi
  rm -f "$out/$name.trace"
  line=
done < tests/why/cases
echo
echo "why: $passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
