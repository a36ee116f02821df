# For scripts that run something in a machine of the lab; $homing is the program.
# in_lab SECONDS OPTIONS... -- COMMAND...: a machine of four nodes. Emulated kernels hang now and then where they change their own
# code; such a machine is switched off after these seconds and the command is run in another one, once, which is told.
in_lab() {
  local most=$1; shift
  local run=(timeout -k 5 $((most + 60)) "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --timeout "${most}s" "$@")
  "${run[@]}"
  local status=$?
  [ $status -ne 124 ] || { echo "the machine hung: once more, in another one" >&2; "${run[@]}"; status=$?; }
  return $status
}
