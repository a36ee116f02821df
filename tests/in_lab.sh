# For scripts that run something in a machine of the lab; $homing is the program.
# in_lab SECONDS OPTIONS... -- COMMAND...: a machine of four nodes. Emulated kernels hang now and then where they change their own
# code; such a machine is switched off after these seconds and the command is run in another one, once, which is told.
in_lab() {
  local most=$1 told status; shift
  told=$(mktemp)
  local run=(timeout -k 5 $((most + 60)) "$homing" lab run --nodes 4 --cpus 8 --balancing off --thp never --timeout "${most}s" "$@")
  "${run[@]}" 2>"$told"
  status=$?
  cat "$told" >&2
  if [ $status -eq 124 ] || { [ $status -ne 0 ] && grep -q 'Kernel panic' "$told"; }; then
    echo "the machine hung, or its kernel panicked: once more, in another one" >&2
    "${run[@]}"
    status=$?
  fi
  rm -f "$told"
  return $status
}
