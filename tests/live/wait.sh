# What the scripts of the guest share: each check prints a line `ok NAME` or `not ok NAME: why`, with a file where it is known.
passed=0 failed=0
ok() { echo "ok $1"; passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2"; failed=$((failed + 1)); [ ! -f "$3" ] || sed 's/^/    /' "$3"; }
# The output of a program that checks its data.
right() { grep -q ' wrong=0$' "$1"; }
# What they wait for. Nothing is timed: what must happen has many times the time that it takes, also under load.
# until_true COMMAND...: waits for it to be true, four minutes at most (or PATIENCE seconds).
seconds() { read -r up _ </proc/uptime; echo "${up%%.*}"; }
until_true() { last=$(($(seconds) + ${PATIENCE:-240})); until "$@"; do [ "$(seconds)" -lt $last ] || return 1; sleep 0.2; done; }
# Pages that a journal says have landed.
landed() { grep -c '"is":"result".*"outcome":"done"' "$1" 2>/dev/null || true; }
# has_landed JOURNAL PAGES: at least PAGES.
has_landed() { count=$(landed "$1"); [ "${count:-0}" -ge "$2" ]; }
# pages_on NODE PID: its private pages there, in small ones.
pages_on() { sed -n "s/.* anon=.* N$1=\([0-9]*\).*/\1/p" /proc/$2/numa_maps | awk '{ n += $1 } END { print n + 0 }'; }
