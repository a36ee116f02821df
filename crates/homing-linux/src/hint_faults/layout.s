# The page that the engine, the helper and its passes share: where what stands in it. Decimal offsets, one a line:
# scanner.s uses them by name, scanner.rs reads them from this file.
.set at_stop, 0             # not 0: the helper is to end
.set at_count_ns, 8         # CPU time after which a pass is ready
.set at_beat, 16            # changes while the engine lives
.set at_ended, 24           # 1: the helper ends and touches nothing any more
.set at_signals, 32         # a set of all signals
.set at_sleep, 40           # a timespec: between two looks at this page
.set at_now, 56             # a timespec
.set at_grant, 72           # the pass that may begin
.set at_name, 80            # the name of the helper, two words
.set at_program, 96         # the program, as it knows itself
.set at_helper, 104         # the helper, as the program knows it, or an error
.set at_used, 112           # the last pass that has ended
.set at_go, 120             # the pass that may scan
.set at_scratch, 128        # a word for the engine
.set at_ready, 136          # the last pass that is ready
.set at_short_sleep, 144    # a timespec: between two looks of a pass
.set at_pass_ns, 160        # CPU time from its go after which a pass gives up
.set at_marked, 168         # the last pass that saw its own fault
.set at_version, 176        # what the words mean
.set at_root, 184           # the path of the root directory
.set at_tick_ns, 192        # CPU time of the scan that counts
.set at_usage, 256          # a struct rusage
.set at_minor_faults, 320   # ... and its ru_minflt
.set at_poll, 400           # two struct pollfd: the program, the signal that wakes the helper
.set at_wake, 416           # a set of that signal
.set at_no_time, 424        # a timespec of 0
.set at_between_stack, 1536 # ends of stacks: of the go-between,
.set at_pass_stack, 2048    # a pass,
.set at_counter_stack, 2560 # its counter,
.set at_helper_stack, 3072  # the helper
