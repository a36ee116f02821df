#!/bin/sh
# Runs inside the lab, as root: a program brings its own pages home, without any `homing`, and the kernel's tunables are back afterwards.
tunables() { cat /proc/sys/kernel/numa_balancing /sys/kernel/debug/sched/numa_balancing/*; }
before=$(tunables)
./home 8 64 480 || exit 1
[ "$(tunables)" = "$before" ] && echo 'ok tunables' || { echo 'not ok tunables: they differ'; exit 1; }
