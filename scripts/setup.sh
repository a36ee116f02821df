#!/usr/bin/env bash
# setup.sh build|test ...: installs the Debian packages that the named purposes need, if any is missing.
# Uses sudo where the user is not root. Does nothing, and needs no network, when all is there.
set -euo pipefail

build=(gcc g++ make pkg-config libc6-dev valgrind libc6-dbg clang-14 llvm-14-dev)
test=(clang gfortran libomp-dev chromium nodejs npm xz-utils python3 zstd binutils
  golang-go default-jdk-headless hwloc-nox libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 sqlite3 redis-server slurmctld slurmd
  slurm-client)

# What a package gives, where something else than dpkg may have installed it.
declare -A command=([nodejs]=node [npm]=npm [python3]=python3 [make]=make [gcc]=gcc [g++]=g++ [clang]=clang
  [golang-go]=go [default-jdk-headless]=java)

missing=()
for purpose in "$@"; do
  declare -n packages=$purpose
  for package in "${packages[@]}"; do
    if [ -n "${command[$package]:-}" ] && command -v "${command[$package]}" >/dev/null; then continue; fi
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
done

if ! command -v cargo >/dev/null; then
  echo "setup: cargo is missing: install a stable Rust toolchain of 1.88 or newer (rustup, or your distribution's) and try again" >&2
  exit 3
fi
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: these Debian packages (or your distribution's equivalents) are missing: ${missing[*]}" >&2
  exit 3
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2; exit 4; }
  sudo=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${sudo[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
