#!/bin/sh
# Runs inside the lab, as root: a daemon, and in the cgroup of its scope a program whose threads change nodes half-way. What the daemon
# does is counted from outside.
group=/sys/fs/cgroup/served
mkdir $group
printf 'source = "hint-faults"\n[scope.served]\ncgroup = "served"\n' >daemon.toml
./homing daemon --config daemon.toml 2>daemon.err & daemon=$!
# Under load the emulator needs longer to start the daemon than the program would wait.
until grep -q begins daemon.err; do sleep 0.2; done
sh -c "echo \$\$ >$group/cgroup.procs; exec ./bands 8 64 30 2"
status=$?
kill -TERM $daemon
wait $daemon || exit 1
cat daemon.err
exit $status
