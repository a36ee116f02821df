#!/bin/sh
# Runs inside the lab, as root, which it gives up: a user without any right brings the pages of a program home, and of one that
# knows nothing of Homing.
# 128 of 512 pages begin at home. Windows see a part of the pages, and the session soon leaves the rest for a minute (docs/runtime.md,
# "Limits"): what is asked for is that pages follow their threads, not how many.
export HOMING_LIB=$PWD/lib
chmod 755 . home plain nobody homing libhoming.so.0 && chmod -R a+rX lib
./nobody ./home 8 64 160 >home.out 2>&1 || { cat home.out; exit 1; }
cat home.out
grep -q '^source protect;' home.out && echo 'ok source' || { echo 'not ok: another source'; exit 1; }
HOME=/tmp ./nobody ./homing run --source protect -- ./plain 8 64 160 >plain.out 2>&1 || { cat plain.out; echo 'not ok plain'; exit 1; }
cat plain.out
grep -q 'pages were protected in' plain.out && grep -q '^ok plain' plain.out || { echo 'not ok plain'; exit 1; }
