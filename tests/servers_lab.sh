#!/usr/bin/env bash
# Servers in the lab: redis, memcached, PostgreSQL and nginx under first touch, interleaved, on one node, with the
# kernel's balancing and under `homing run`; each miss of a cache of 128 KiB is delayed by its memory's latency, times
# 10. Prints a table in Markdown: non-local misses of the last half as the observer counts them, requests per second and
# the time of a request as the client measures them, and what `homing why` says of the first of them.
# The client runs on the same CPUs and is neither counted nor delayed.
#   [OUT=DIR] tests/servers_lab.sh [SERVER...]     what is in OUT is not run again; `make servers-lab` runs all
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD homing=$(realpath "${HOMING:-$PWD/target/release/homing}") out=${OUT:-$PWD/build/servers-lab} failed=0
mkdir -p "$out" && cd "$out" || exit 1
for tool in redis-server redis-benchmark memcached nginx ab numactl; do
  command -v $tool >/dev/null || { echo "$tool is missing: apt-get install redis-server memcached nginx apache2-utils numactl" >&2; exit 3; }
done
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -n "$postgres" ] || { echo 'PostgreSQL is missing: apt-get install postgresql' >&2; exit 3; }
gcc -O2 -pthread -o load "$root/tests/servers/load.c" || exit 1

# Each server: its line, files that it opens, the line that puts data in and measures, which ends it. The measured line
# prints requests per second, median and 99th percentile in microseconds.
redis() {
  serve="redis-server --bind 127.0.0.1 --port 7001 --save '' --io-threads 4 --logfile redis.log"
  files=(/usr/bin/redis-benchmark /usr/bin/redis-cli)
  load='until redis-cli -p 7001 ping; do sleep 0.1; done >/dev/null 2>&1
    redis-benchmark -p 7001 -q -n 60000 -r 40000 -d 512 -c 16 -P 16 -t set >/dev/null
    PROBE
    redis-benchmark -p 7001 --csv -n 24000 -r 40000 -d 512 -c 16 -t get >redis.csv
    sed -n "s/\"//g; /GET/p" redis.csv | awk -F, "{ print \$2, \$5 * 1000, \$7 * 1000 }" >result
    wait
    redis-cli -p 7001 shutdown nosave'
}
memcached() {
  serve='memcached -l 127.0.0.1 -p 7002 -t 4 -m 256 -u root -P memcached.pid'
  files=(load)
  load='PROBE
    ./load 7002 16 40000 512 60000 >result
    wait
    kill $(cat memcached.pid)'
}
postgresql() {
  local data=$out/data
  if [ ! -f data/PG_VERSION ]; then
    rm -rf data && mkdir data && chown nobody data || return 1
    local as=(setpriv --reuid=nobody --clear-groups) socket=$out/data
    { "${as[@]}" "$postgres/initdb" -D "$data" -A trust -U nobody --no-sync &&
      "${as[@]}" "$postgres/pg_ctl" -D "$data" -w -o "-c listen_addresses= -k $socket" start &&
      "${as[@]}" "$postgres/pgbench" -h "$socket" -U nobody -i -s 3 postgres &&
      "${as[@]}" "$postgres/pg_ctl" -D "$data" -w stop; } >initdb.log 2>&1 || { cat initdb.log >&2; return 1; }
  fi
  prepare="chown -R 65534 $data && chmod 700 $data && "
  serve="setpriv --reuid=65534 --clear-groups $postgres/postgres -D $data -k $data -c listen_addresses= \
    -c shared_buffers=64MB -c huge_pages=off -c autovacuum=off"
  files=("$data" "$postgres/.." /usr/share/postgresql /usr/share/zoneinfo /usr/lib/locale "$(command -v setpriv)" "$(command -v chown)" "$(command -v chmod)" /etc/passwd)
  load="until $postgres/psql -h $data -U nobody -c 'select 1' postgres; do sleep 0.2; done >/dev/null 2>&1
    PROBE
    $postgres/pgbench -h $data -U nobody -S -M prepared -c 8 -j 2 -t 600 -l --log-prefix=pg postgres >pgbench.out 2>&1
    sort -n -k3,3 pg.* | awk '{ t[NR] = \$3 } END { m = int(NR / 2); n = int(NR * 0.99); print t[m], t[n] }' >times
    echo \$(sed -n 's/^tps = \\([0-9.]*\\).*/\\1/p' pgbench.out) \$(cat times) >result
    wait
    kill -INT \$(head -1 $data/postmaster.pid)"
}
nginx() {
  mkdir -p www
  [ -s www/999 ] || python3 -c 'import random
for n in range(1000):
    random.seed(n)
    open(f"www/{n}", "w").write("".join(random.choice("abcdefgh ijkl") for _ in range(16384)))'
  cat >nginx.conf <<END
user root;
worker_processes 4;
daemon off;
pid $out/nginx.pid;
error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off; gzip on; gzip_types *; gzip_comp_level 1; default_type text/plain;
  client_body_temp_path $out/temp; proxy_temp_path $out/temp; fastcgi_temp_path $out/temp;
  uwsgi_temp_path $out/temp; scgi_temp_path $out/temp;
  server { listen 127.0.0.1:7003; root $out/www; }
}
END
  serve="nginx -c $out/nginx.conf"
  files=("$out/www" /usr/bin/ab nginx.conf /usr/share/nginx /var/lib/nginx /etc/passwd /etc/group)
  load="until ab -q -n 1 http://127.0.0.1:7003/1; do sleep 0.2; done >/dev/null 2>&1
    PROBE
    ab -q -k -c 16 -n 30000 -H 'Accept-Encoding: gzip' -e ab.csv http://127.0.0.1:7003/77 >ab.out
    echo \$(sed -n 's/^Requests per second: *\\([0-9.]*\\).*/\\1/p' ab.out) \$(awk -F, '\$1 == 50 || \$1 == 99 { print \$2 * 1000 }' ab.csv) >result
    wait
    kill -QUIT \$(cat $out/nginx.pid)"
}

# in_lab NAME OPTIONS... -- LINE: the server's line with the load beside it.
in_lab() {
  local name=$1 options=() take=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  for file in "${files[@]}"; do take+=(--file "$file"); done
  rm -f result
  printf '%s\n' "${load//PROBE/${probe:-}}" >load.sh
  timeout -k 5 360 "$homing" lab run --topology 4x2 --thp never --timeout 300s \
    --file load.sh --file "$(command -v numactl)" "${take[@]}" "${observe[@]}" "${options[@]}" --result "$out/result" \
    --result "$out/why.txt" --beside 'sh load.sh' -- sh -c "$prepare$2" >"$name.log" 2>&1
  [ -s result ] || { echo "$name: no result:"; tail -5 "$name.log"; return 1; } >&2
  mv result "$name.result"
}

run() { # SERVER CONTENDER
  local name=$1-$2 probe= prepare= observe=(--observe "$1-$2.new" --cache 128K --delay)
  [ ! -s "$name.json" ] && [ ! -s "$name.out" ] || return 0
  $1 || return 1
  case $2 in
    first-touch) in_lab $name --balancing off -- "exec $serve" ;;
    interleave) in_lab $name --balancing off -- "exec numactl --interleave=all $serve" ;;
    single-node) in_lab $name --balancing off -- "exec numactl --membind=0 $serve" ;;
    balancing) in_lab $name --balancing on -- "exec $serve" ;;
    homing) in_lab $name --balancing off -- "exec $homing run -q -- $serve" ;;
    why) # Not observed: programs that are carry a filter of system calls, as an engine beside them does.
      observe=()
      probe="$homing why --pid \$(cat server.pid) --children --seconds 15 >why.txt 2>\&1 \&"
      files+=("$homing")
      in_lab $name --balancing off -- "echo \$\$ >server.pid; exec $serve" && mv why.txt "$name.out" ;;
  esac
  [ $? -eq 0 ] || return 1
  [ $2 = why ] || mv "$name.new" "$name.json"
}

row() { # SERVER CONTENDER
  python3 - "$1" "$2" <<'END'
import json, sys
name = "-".join(sys.argv[1:])
counts = json.load(open(name + ".json"))
rate, median, tail = (float(x) for x in open(name + ".result").read().split())
half = counts["intervals"][len(counts["intervals"]) // 2:]
home, all_ = 0, 0
for interval in half:
    for cpu, nodes in enumerate(interval["misses"]):
        all_ += sum(nodes)
        home += nodes[counts["node_of_cpu"][cpu]]
moved = counts["kernel"].get("pgmigrate_success", 0)
share = f"{100 - 100 * home / all_:.1f}" if all_ else "-"
print(f"| {sys.argv[1]} | {sys.argv[2]} | {share} | {rate:.0f} | {median / 1000:.1f} | {tail / 1000:.1f} | {moved} |")
END
}

servers=("$@")
[ $# -gt 0 ] || servers=(redis memcached postgresql nginx)
echo '| server | memory | non-local % | requests/s | median ms | 99 % ms | pages moved |'
echo '|---|---|---|---|---|---|---|'
for server in "${servers[@]}"; do
  for contender in first-touch interleave single-node balancing homing; do
    run "$server" $contender </dev/null && row "$server" $contender || failed=1
  done
  run "$server" why </dev/null || failed=1
done
for server in "${servers[@]}"; do
  [ ! -s "$server-why.out" ] || { printf '\n%s:\n' "$server"; sed -n 1,6p "$server-why.out"; }
done
exit $failed
