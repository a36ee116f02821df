#!/usr/bin/env bash
# The systemd unit: accepted by systemd, and as closed as it claims. The example configuration: accepted by the program.
set -uo pipefail
cd "$(dirname "$0")/.."
homing=${HOMING:-$PWD/target/release/homing}
failed=0
"$homing" daemon --check --config packaging/homing.toml || failed=1
if ! command -v systemd-analyze >/dev/null; then
  echo "SKIPPED 4 tests of the systemd unit: no systemd-analyze on this machine (package systemd)"
  exit $failed
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
printf '[Service]\nExecStart=/bin/true\n' >"$work/app.service"
for unit in homing homing-attach@; do
  sed "s|/usr/local/bin/homing|$homing|" packaging/$unit.service >"$work/$unit.service"
  # A template is verified as the engine of a service that is there.
  file=$work/$unit.service
  [ $unit = homing ] || file=$work/${unit}app.service
  if out=$(systemd-analyze verify --man=no "$file" 2>&1) && ! grep -q homing <<<"$out"; then echo "unit: $unit verified"
  else echo "unit: systemd-analyze verify $unit FAILED: $out"; failed=1; fi
  # Exposure in tenths, 100 being a service without any protection.
  if out=$(systemd-analyze security --offline=yes --threshold=30 "$file" 2>&1); then tail -1 <<<"$out"
  elif grep -q 'unrecognized option' <<<"$out"; then echo "SKIPPED 1 test of the systemd unit: this systemd-analyze cannot judge offline (needs 250)"
  else echo "$out"; echo "unit: $unit more exposed than 3.0: FAILED"; failed=1; fi
done
exit $failed
