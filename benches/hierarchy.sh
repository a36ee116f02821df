#!/usr/bin/env bash
# How quick the simulated memory hierarchy is, beside Cachegrind and pycachesim, a public cache simulator, on the same program and
# the same caches (32 KB and 1 MB). CPU seconds are taken, so that other work on the machine matters less.
# Needs `make build workloads`, valgrind, and pip for pycachesim. HOMING=PROGRAM measures another one than target/release/homing.
set -euo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing}
out=build/bench-hierarchy
mkdir -p "$out"
cat >"$out/machine.toml" <<'END'
name = "bench"
nodes = 2
cpus_per_node = 2
[latency]
local = 80
remote = 140
page_move = 2000
[hierarchy]
l1 = { size = "32K", ways = 8, line = 64, ns = 1 }
l2 = { size = "1M", ways = 16, line = 64, ns = 5 }
tlb = [{ entries = 64, ways = 4 }, { entries = 2048, ways = 16 }]
END
[ -d "$out/venv" ] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q pycachesim; }

cpu() { # cpu FILE COMMAND...: CPU seconds to FILE
   local file=$1
   shift
   /usr/bin/time -f '%U %S' -o "$file" "$@" >/dev/null 2>"$file.err" || { cat "$file.err" >&2; return 1; }
}

measure() { # measure NAME PROGRAM OPTIONS...
   local name=$1
   shift
   [ -f "$out/$name.trace" ] || "$homing" record -o "$out/$name.trace" -- "$@" >/dev/null 2>&1
   cpu "$out/$name.plain" "$homing" optimal "$out/$name.trace" -m "$out/machine.toml" --no-replication --json
   cpu "$out/$name.caches" "$homing" optimal "$out/$name.trace" -m "$out/machine.toml" --misses --json
   cpu "$out/$name.cachegrind" valgrind --tool=cachegrind --cache-sim=yes --D1=32768,8,64 --LL=1048576,16,64 \
      --cachegrind-out-file=/dev/null "$@"
   "$homing" trace export "$out/$name.trace" 2>/dev/null | head -2000001 >"$out/$name.csv" || true
   cpu "$out/$name.pycachesim" "$out/venv/bin/python" benches/pycachesim_rate.py "$out/$name.csv" "$out/$name.rate"
   python3 - "$out" "$name" "$("$homing" trace info --json "$out/$name.trace" | python3 -c 'import json,sys; print(json.load(sys.stdin)["references"])')" <<'END'
import sys
out, name, references = sys.argv[1], sys.argv[2], int(sys.argv[3])
seconds = lambda what: sum(map(float, open(f"{out}/{name}.{what}").read().split()))
caches, plain, grind = (references / seconds(what) / 1e6 for what in ("caches", "plain", "cachegrind"))
rate = float(open(f"{out}/{name}.rate").read())
print(f"{name:8} {references / 1e6:8.1f} M refs | caches+TLB+coherence, decoding included {caches:6.1f} M/s | "
      f"without caches {plain:6.1f} | cachegrind, live {grind:6.1f} | pycachesim {rate:6.2f}")
END
}

measure cg build/workloads/cg -t 4 -n 7000 -i 200
measure chase build/workloads/chase -t 4 -n 4000000 -i 1
