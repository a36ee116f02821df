#!/usr/bin/env bash
# Installs what the lab needs, from Debian's packages: QEMU (9.1 or newer), a static busybox, numactl and numad (as programs for
# the guest), and a kernel, which is only unpacked: into $HOMING_LAB_CACHE (default ~/.cache/homing/lab) as `vmlinux`, with the
# modules by which a guest reaches its host where they are not built in. $HOMING_LAB_KERNEL names another package of a kernel.
# Where the release's own packages are too old, they come from its backports. Does nothing, and needs no network, when all is there.
set -euo pipefail

cache=${HOMING_LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/homing/lab}
wanted_qemu=9.1 wanted_kernel=6.1

say() { echo "lab setup: $*" >&2; }
fail() { say "$1"; exit "$2"; }
newer() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; } # is $2 at least $1?

[ "$(uname -m)" = x86_64 ] || fail "the lab runs on x86-64 hosts only" 3

qemu_version() { qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9.]*\).*/\1/p' || true; }
missing=()
qemu=$(qemu_version)
if [ -z "$qemu" ] || ! newer "$wanted_qemu" "$qemu"; then missing+=(qemu-system-x86); fi
command -v busybox >/dev/null || missing+=(busybox-static)
command -v numactl >/dev/null || missing+=(numactl)
command -v numad >/dev/null || missing+=(numad)
command -v zstd >/dev/null || missing+=(zstd)
command -v xz >/dev/null || missing+=(xz-utils)
command -v lz4 >/dev/null || missing+=(lz4)
if [ ${#missing[@]} -eq 0 ] && [ -s "$cache/vmlinux" ]; then
  say "all is there: QEMU $qemu, kernel $(cat "$cache/version" 2>/dev/null || echo unknown) in $cache"
  exit 0
fi
command -v apt-get >/dev/null || fail "no apt-get here: install ${missing[*]:-a kernel} by your distribution's means, and put an uncompressed kernel of $wanted_kernel or newer (vmlinux, with virtio, NUMA and PVH built in) at $cache/vmlinux" 3

# The system's package sources and, beside them, the backports of the same release; in a place of our own, so that
# nothing of the system's settings changes and no permission is needed.
mkdir -p "$cache"
work=$(mktemp -d "$cache/.setup.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/sources" "$work/lists/partial"
cp -r /etc/apt/sources.list.d/. "$work/sources/" 2>/dev/null || true
[ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$work/sources/zz-main.list"
. /etc/os-release
options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/sources" -o "Dir::State::lists=$work/lists"
         -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root)
target=()
if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-99}" -lt 13 ]; then
  mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 2>/dev/null | sed -n "s/ $VERSION_CODENAME\$//p" | head -n 1)
  [ -n "$mirror" ] || fail "apt-get indextargets names no source of $VERSION_CODENAME: add one to the system's package sources, then run this again" 1
  printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$mirror" "$VERSION_CODENAME" >"$work/sources/homing-backports.sources"
  target=(-t "$VERSION_CODENAME-backports")
fi
say "reading the package lists"
apt-get "${options[@]}" update -q >&2

if [ ${#missing[@]} -gt 0 ]; then
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "not root and no sudo; run this as root, or have root run (with ${target[1]:-the release} among the package sources): apt-get install --no-install-recommends ${target[*]} ${missing[*]}" 4
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  # Services of packages (numad) are for the guest, not to be started here.
  printf '#!/bin/sh\nexit 101\n' >"$work/policy-rc.d" && chmod +x "$work/policy-rc.d"
  for package in "${missing[@]}"; do
    from=()
    [ "$package" != qemu-system-x86 ] || from=("${target[@]}")
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get "${options[@]}" install -y -q \
      --no-install-recommends "${from[@]}" "$package" >&2
  done
  hash -r
  qemu=$(qemu_version)
  newer "$wanted_qemu" "${qemu:-0}" ||
    fail "$(command -v qemu-system-x86_64) is version ${qemu:-unknown} and not what was installed, expected $wanted_qemu or newer: upgrade it, or put /usr/bin before its directory in PATH" 3
fi

if [ ! -s "$cache/vmlinux" ]; then
  meta=linux-image-cloud-amd64
  package=${HOMING_LAB_KERNEL:-$(apt-cache "${options[@]}" "${target[@]}" show "$meta" | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | sort -V | tail -n 1)}
  [ -n "$package" ] || fail "no package behind $meta: expected a Debian mirror with a kernel of $wanted_kernel or newer" 1
  version=${package#linux-image-}
  newer "$wanted_kernel" "$version" || fail "the kernel is $version: expected $wanted_kernel or newer" 1
  say "unpacking $package"
  (cd "$work" && apt-get "${options[@]}" download -q "$package" >&2 && dpkg-deb -x "$package"_*.deb unpacked)
  image=$(ls "$work"/unpacked/boot/vmlinuz-*)
  # Documentation/arch/x86/boot.rst: setup_sects, payload_offset and payload_length say where the compressed kernel is.
  number() { od -An -t"$3" -j "$1" -N "$2" "$image" | tr -d ' '; }
  start=$((($(number 497 1 u1) + 1) * 512 + $(number 584 4 u4)))
  # Its last four bytes are the uncompressed length.
  length=$(($(number 588 4 u4) - 4))
  # head ends first, and tail is told so by a signal: that is no failure.
  { tail -c +$((start + 1)) "$image" 2>/dev/null || true; } | head -c "$length" >"$work/payload"
  case $(od -An -tx1 -N4 "$work/payload" | tr -d ' ') in
    28b52ffd) zstd -dcq "$work/payload" >"$work/vmlinux" ;;
    fd377a58) xz -dc "$work/payload" >"$work/vmlinux" ;;
    1f8b*) gzip -dc "$work/payload" >"$work/vmlinux" ;;
    02214c18) lz4 -dcq "$work/payload" >"$work/vmlinux" ;;
    *) fail "$image is compressed in a way that is not known: expected zstd, xz, gzip or lz4" 1 ;;
  esac
  [ "$(od -An -tx1 -N4 "$work/vmlinux" | tr -d ' ')" = 7f454c46 ] || fail "$image: the unpacked kernel is no ELF file" 1
  # In the order in which they are loaded. Those that are built in are not there.
  mkdir "$work/modules"
  number=0
  for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_console; do
    file=$(find "$work/unpacked" -name "$module.ko*" | head -n 1)
    case $file in
      "") ;;
      *.xz) xz -dc "$file" >"$work/modules/$number-$module.ko" ;;
      *) cp "$file" "$work/modules/$number-$module.ko" ;;
    esac
    number=$((number + 1))
  done
  rm -rf "$cache/modules"
  mv "$work/modules" "$cache/modules"
  mv "$work/vmlinux" "$cache/vmlinux"
  echo "$version" >"$cache/version"
fi
say "ready: $(qemu-system-x86_64 --version | head -n 1), kernel $(cat "$cache/version") in $cache"
