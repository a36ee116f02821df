# The scanning helper; scanner.rs says what it is for. It is put into programs by the engine, and is part of the
# preloaded library (preload/scan.c). Intel syntax; layout.s comes before it.
#
# Called with the address of the shared page in r12 and all signals blocked, as a function that destroys rax, rcx, rdx,
# rsi, rdi, r8, r10 and r11. Gives the go-between, whose end is to be waited for, or an error. Position-independent, and
# reaches its data through r12 alone.
.global homing_scanner_begin
.hidden homing_scanner_begin
.global homing_scanner_end
.hidden homing_scanner_end
.global homing_scanner_words
.hidden homing_scanner_words
.global homing_scanner_words_end
.hidden homing_scanner_words_end


# CLONE_VM, CLONE_FS, CLONE_FILES, and CLONE_UNTRACED: a debugger of the program does not take the helper for one of its
# threads.
.set flags_helper, 0x800700
# Without CLONE_FS: while a program shares its directory, the kernel takes privileges away from what it executes.
# Descriptors are shared until they are left, so that none is ever open twice.
.set flags_between, 0x800500

homing_scanner_begin:
    mov eax, 56                     # clone: the go-between, whose end gives the helper to init
    mov edi, flags_between
    lea rsi, [r12 + at_between_stack]
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jz .Lbetween
    # Where the engine has put this here, it has stopped the caller at the end of its clone.
    ret

.Lbetween:
    mov eax, 157                    # prctl(PR_SET_NAME, name)
    mov edi, 15
    lea rsi, [r12 + at_name]
    syscall
    # close_range(0, all, CLOSE_RANGE_UNSHARE): a pipe of the program is to end with the program
    mov eax, 436
    xor edi, edi
    mov esi, -1
    mov edx, 2
    syscall
    mov eax, 80                     # chdir("/")
    lea rdi, [r12 + at_root]
    syscall
    mov eax, 110                    # getppid
    syscall
    mov [r12 + at_program], rax
    mov eax, 56                     # clone: the helper
    mov edi, flags_helper
    lea rsi, [r12 + at_helper_stack]
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jz .Lhelper
    mov [r12 + at_helper], rax
    jmp .Lexit

.Lhelper:
    mov eax, 14                     # rt_sigprocmask(SIG_SETMASK, all, NULL, 8)
    mov edi, 2
    lea rsi, [r12 + at_signals]
    xor edx, edx
    mov r10d, 8
    syscall
    mov eax, 238                    # set_mempolicy(MPOL_LOCAL, NULL, 0)
    mov edi, 4
    xor esi, esi
    xor edx, edx
    syscall
    mov eax, 39                     # getpid
    syscall
    mov rbp, rax
    xor ebx, ebx                    # naps of 5 ms without a heartbeat
    mov r14, [r12 + at_beat]
    xor r15d, r15d                  # the last grant
    # Two descriptors to wait on: of the program, which can be read once that has ended, and of the signal with which
    # the engine wakes the helper. Where there are none, their numbers are negative.
    mov eax, 434                    # pidfd_open(program, 0)
    mov rdi, [r12 + at_program]
    xor esi, esi
    syscall
    mov [r12 + at_poll], eax
    mov dword ptr [r12 + at_poll + 4], 1 # POLLIN
    mov eax, 289                    # signalfd4(-1, SIGURG, 8, 0)
    mov edi, -1
    lea rsi, [r12 + at_wake]
    mov edx, 8
    xor r10d, r10d
    syscall
    mov [r12 + at_poll + 8], eax
    mov dword ptr [r12 + at_poll + 12], 1
.Lround:
    cmp qword ptr [r12 + at_stop], 0
    jne .Lend
    mov rax, [r12 + at_grant]
    cmp rax, r15
    je .Lrest
    mov r15, rax
    mov eax, 56                     # clone: a pass
    mov edi, flags_helper
    lea rsi, [r12 + at_pass_stack]
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jz .Lpass
    mov rdi, rax                    # wait4(it, NULL, __WALL, NULL)
    mov eax, 61
    xor esi, esi
    mov edx, 0x40000000
    xor r10d, r10d
    syscall
    mov [r12 + at_used], r15
    jmp .Lround

.Lrest:
    # A helper that looked each few milliseconds would take the CPUs of threads so often that those that may run
    # anywhere never stay where their memory is.
    mov eax, [r12 + at_poll]
    or eax, [r12 + at_poll + 8]
    js .Lnap
    mov eax, 7                      # poll(the two, 2, 200 ms)
    lea rdi, [r12 + at_poll]
    mov esi, 2
    mov edx, 200
    syscall
    test eax, eax
    js .Lnap
    cmp word ptr [r12 + at_poll + 6], 0
    jne .Lend                       # the program has ended
    add ebx, 39                     # with the one below: 40 naps
    mov eax, 128                    # rt_sigtimedwait(SIGURG, NULL, no time, 8): the signal is taken, if it came
    lea rdi, [r12 + at_wake]
    xor esi, esi
    lea rdx, [r12 + at_no_time]
    mov r10d, 8
    syscall
    jmp .Lcheck
.Lnap:
    mov eax, 35                     # nanosleep(5 ms, NULL)
    lea rdi, [r12 + at_sleep]
    xor esi, esi
    syscall
.Lcheck:
    # kcmp(helper, program, KCMP_VM, 0, 0): not after the program's end, nor in another program
    mov eax, 312
    mov rdi, rbp
    mov rsi, [r12 + at_program]
    mov edx, 1
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jg .Lend
    cmp rax, -3                     # ESRCH; other errors tell nothing
    je .Lend
    mov rax, [r12 + at_beat]
    cmp rax, r14
    mov r14, rax
    mov eax, 0
    cmovne ebx, eax
    inc ebx
    cmp ebx, 2000
    jb .Lround
.Lend:
    mov qword ptr [r12 + at_ended], 1
.Lexit:
    mov eax, 60                     # exit
    xor edi, edi
    syscall

.Lpass:
    call .Llater                    # CPU time without a scan
    cmp rax, [r12 + at_count_ns]
    jb .Lpass
    mov eax, 56                     # clone: the counter
    mov edi, flags_helper
    lea rsi, [r12 + at_counter_stack]
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jz .Lcounter
    mov rdi, rax                    # wait4(it, NULL, __WALL, NULL): asleep, it takes no turn to scan
    mov eax, 61
    xor esi, esi
    mov edx, 0x40000000
    xor r10d, r10d
    syscall
    cmp [r12 + at_go], r15
    jne .Lexit                      # it is to end, or nobody asked for the scan
    call .Llater
    mov r14, rax                    # what it used until now does not count
    add r14, [r12 + at_pass_ns]
    mov eax, 238                    # set_mempolicy(MPOL_DEFAULT, NULL, 0)
    xor edi, edi
    xor esi, esi
    xor edx, edx
    syscall
.Lmark:
    call .Llater                    # the scan that marks
    mov r13, rax
    mov eax, 98                     # getrusage(RUSAGE_THREAD, usage)
    mov edi, 1
    lea rsi, [r12 + at_usage]
    syscall
    cmp qword ptr [r12 + at_minor_faults], 0
    jne .Lmarked
    cmp r13, r14
    jb .Lmark
    jmp .Lexit
.Lmarked:
    mov [r12 + at_marked], r15
    jmp .Lexit

.Lcounter:
    call .Llater                    # CPU time without a scan
    cmp rax, [r12 + at_count_ns]
    jb .Lcounter
    mov [r12 + at_ready], r15
    xor ebx, ebx
.Lwait:                             # for the pass's go, ten seconds at most
    cmp [r12 + at_go], r15
    je .Lgo
    cmp qword ptr [r12 + at_stop], 0
    jne .Lexit
    inc ebx
    cmp ebx, 10000
    ja .Lexit
    mov eax, 35                     # nanosleep(1 ms, NULL)
    lea rdi, [r12 + at_short_sleep]
    xor esi, esi
    syscall
    jmp .Lwait
.Lgo:
    call .Llater
    mov r13, rax
    add r13, [r12 + at_tick_ns]
.Lcount:
    call .Llater                    # the scan that counts
    cmp rax, r13
    jb .Lcount
    jmp .Lexit

.Llater:                            # a while later: clock_gettime(CLOCK_THREAD_CPUTIME_ID, now), in nanoseconds in rax
    mov ecx, 2000
.Lspin:
    pause
    dec ecx
    jnz .Lspin
    mov eax, 228
    mov edi, 3
    lea rsi, [r12 + at_now]
    syscall
    imul rax, qword ptr [r12 + at_now], 1000000000
    add rax, [r12 + at_now + 8]
    ret
homing_scanner_end:

# What the page begins with: pairs of an offset and a word. All others are 0.
    .balign 8
homing_scanner_words:
    # The version is another one as soon as a word means something else, or the code does something else.
    .quad at_version, 5
    .quad at_short_sleep + 8, 1000000
    .quad at_sleep + 8, 5000000
    .quad at_signals, -1
    .quad at_wake, 1 << 22          # SIGURG
    .quad at_name
    .ascii "homing-s"
    .quad at_name + 8
    .ascii "can\0\0\0\0\0"
    .quad at_root
    .ascii "/\0\0\0\0\0\0\0"
homing_scanner_words_end:
