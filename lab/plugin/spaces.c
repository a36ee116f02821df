/* Whose accesses are counted: address spaces, told apart by CR3, and which of them are the program's.
 *
 * - The kernel changes address spaces by `mov REGISTER, %cr3`: the register is read when that instruction runs.
 * - The guest's first process and, on top of that, the observed command carry seccomp filters that compare something
 * with a mark
 *   (lab/guest/lab.h). Filters are inherited by everything that a process starts and run at every system call, the
 * newest first. So
 *   a call that comes past the program's mark and then the other one belongs to the program's tree, one that only comes
 * past the
 *   other does not; and the address space in use is known as such from its first system call on, also when the kernel
 *   has given a dead process's page table to a new one.
 * - The live engine may be part of that tree (`homing run -- program`). It is known by the bytes at its entry point,
 * which
 *   the launcher read from its file: an address space that runs them is the engine's until it runs the entry of another
 * file,
 *   which exec leads to. Children that it forks begin as the program's.
 */
#include "observer.h"
#include "../guest/lab.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 1 << 16 };
/* CR3 without the process-context id and the flag that keeps the TLB. */
static const uint64_t CR3_MASK = 0x000ffffffffff000;

enum class { UNKNOWN, PROGRAM, ENGINE };

/* An open-addressed table from CR3 to what is known about it. Page tables are few and reused; it never fills. */
static struct { uint64_t space; enum class class; } spaces[SPACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int section_open;
static unsigned programs;

/* Entry points: the offset in the page and the bytes. The loader's and other programs' are known, too, with `engine` 0.
 * */
static struct { unsigned offset, length, engine; uint8_t bytes[ENTRY_BYTES]; } entries[MOST_PROGRAMS];
static unsigned nentries;

/* "ENGINE:OFFSET:BYTES": 1 or 0, hexadecimal, hexadecimal. */
int spaces_entry(const char *text) {
    char *end;
    if (nentries >= MOST_PROGRAMS) return 0;
    entries[nentries].engine = strtoul(text, &end, 10);
    if (*end != ':') return -1;
    entries[nentries].offset = strtoul(end + 1, &end, 16) & 0xfff;
    if (*end++ != ':') return -1;
    unsigned length = 0;
    for (; length < ENTRY_BYTES && end[0] != 0 && end[1] != 0; length++, end += 2) {
        char digits[3] = {end[0], end[1], 0};
        entries[nentries].bytes[length] = strtoul(digits, NULL, 16);
    }
    entries[nentries++].length = length;
    return 0;
}

static enum class *class_of(uint64_t space) {
    for (uint64_t at = space >> PAGE_SHIFT;; at++) {
        if (spaces[at % SPACES].space == space) return &spaces[at % SPACES].class;
        if (spaces[at % SPACES].space != 0) continue;
        spaces[at % SPACES].space = space;
        return &spaces[at % SPACES].class;
    }
}

/* With the lock held. */
static void refresh(struct vcpu *vcpu) {
    int ours = options.all || *class_of(vcpu->space) == PROGRAM;
    vcpu->counting = ours && (!options.marked || section_open);
}

static void set_class(uint64_t space, enum class class) {
    pthread_mutex_lock(&lock);
    enum class *known = class_of(space);
    if (*known != class) {
        if (class == PROGRAM) programs++;
        *known = class;
        for (unsigned i = 0; i < options.nvcpus; i++)
            if (vcpus[i].present && vcpus[i].space == space) refresh(&vcpus[i]);
    }
    pthread_mutex_unlock(&lock);
}

static void drop_mappings(struct vcpu *vcpu) { memset(vcpu->mappings, 0, sizeof vcpu->mappings); }

static void on_mov_cr3(unsigned index, void *data) {
    struct vcpu *vcpu = &vcpus[index];
    uint64_t value = 0;
    g_byte_array_set_size(vcpu->scratch, 0);
    qemu_plugin_read_register(vcpu->registers[(uintptr_t)data], vcpu->scratch);
    memcpy(&value, vcpu->scratch->data, vcpu->scratch->len < 8 ? vcpu->scratch->len : 8);
    drop_mappings(vcpu);
    pthread_mutex_lock(&lock);
    vcpu->space = value & CR3_MASK;
    vcpu->program_marked = 0;
    refresh(vcpu);
    pthread_mutex_unlock(&lock);
}

static void on_flush(unsigned index, void *data) {
    (void)data;
    drop_mappings(&vcpus[index]);
}

static void on_program_mark(unsigned index, void *data) {
    (void)data;
    vcpus[index].program_marked = 1;
}

static void on_other_mark(unsigned index, void *data) {
    (void)data;
    struct vcpu *vcpu = &vcpus[index];
    int marked = vcpu->program_marked;
    vcpu->program_marked = 0;
    /* Only this vCPU's thread and a change of class write it; a stale value is put right at the next system call. */
    enum class known = *class_of(vcpu->space);
    if (marked && known == UNKNOWN) set_class(vcpu->space, PROGRAM);
    else if (!marked && known != UNKNOWN) set_class(vcpu->space, UNKNOWN);
}

static void on_entry(unsigned index, void *data) {
    int engine = entries[(uintptr_t)data].engine;
    struct vcpu *vcpu = &vcpus[index];
    /* Unknown until its next system call tells whether it is of the program's tree. */
    if (engine) set_class(vcpu->space, ENGINE);
    else if (*class_of(vcpu->space) == ENGINE) set_class(vcpu->space, UNKNOWN);
}

static void mark_section(int open) {
    pthread_mutex_lock(&lock);
    section_open = open;
    for (unsigned i = 0; i < options.nvcpus; i++)
        if (vcpus[i].present) refresh(&vcpus[i]);
    pthread_mutex_unlock(&lock);
}

static void on_section(unsigned index, void *data) {
    /* Only the program's own marks count. */
    if (*class_of(vcpus[index].space) == PROGRAM || options.all) mark_section(data != NULL);
}

unsigned spaces_programs(void) { return programs; }

/* Between two programs: what is in use shows whose it is at its next system call. */
void spaces_forget(void) {
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < SPACES; i++) spaces[i].class = UNKNOWN;
    programs = 0;
    section_open = 0;
    for (unsigned i = 0; i < options.nvcpus; i++)
        if (vcpus[i].present) refresh(&vcpus[i]);
    pthread_mutex_unlock(&lock);
}

/* Where Linux loads position-independent programs, whatever the randomisation; libraries are far above. */
static const uint64_t PROGRAMS_FROM = 0x555555554000, PROGRAMS_TO = 0x660000000000;

/* Whether a block that this vCPU is about to run for the first time is of the engine's own file. Nobody else runs that
   (but its children, until they execute another file), so that what it does need not be asked at each access. Blocks of
   libraries are shared with programs, by their place in physical memory. */
int spaces_of_engine(const struct vcpu *vcpu, uint64_t address) {
    return address >= PROGRAMS_FROM && address < PROGRAMS_TO && *class_of(vcpu->space) == ENGINE;
}

void spaces_begin_vcpu(struct vcpu *vcpu) {
    /* In the order of their numbers in instructions. */
    static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                          "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    vcpu->scratch = g_byte_array_new();
    GArray *all = qemu_plugin_get_registers();
    for (unsigned i = 0; i < all->len; i++) {
        const register_descriptor *descriptor = &((const register_descriptor *)all->data)[i];
        for (unsigned n = 0; n < 16; n++)
            if (strcmp(descriptor->name, names[n]) == 0) vcpu->registers[n] = descriptor->handle;
    }
    g_array_free(all, 1);
}

void spaces_instrument(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *bytes, size_t length) {
    if (address >> 63 == 0) {
        /* The program's own marks: a long no-op with a value of ours (lab/guest/homing_section.h). */
        uint32_t value = 0;
        if (length == 7) memcpy(&value, bytes + 3, 4);
        if (length == 7 && bytes[0] == 0x0f && bytes[1] == 0x1f && bytes[2] == 0x80 &&
            (value == SECTION_BEGIN || value == SECTION_END))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_section, CB_NO_REGS,
                                                   value == SECTION_BEGIN ? (void *)1 : NULL);
        return;
    }
    unsigned prefix = bytes[0] >= 0x40 && bytes[0] <= 0x4f ? bytes[0] : 0;
    const uint8_t *code = bytes + (prefix != 0);
    if (code[0] == 0x0f && code[1] == 0x22 && (code[2] >> 3 & 7) == 3) {
        uintptr_t number = (code[2] & 7) | (prefix & 1 ? 8 : 0);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mov_cr3, CB_READ_REGS, (void *)number);
    } else if ((code[0] == 0x0f && code[1] == 0x22 && (code[2] >> 3 & 7) == 4) ||
               (code[0] == 0x0f && code[1] == 0x01 && (code[2] >> 3 & 7) == 7 && code[2] < 0xc0)) {
        /* mov to CR4 (global flush) and invlpg. */
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_flush, CB_NO_REGS, NULL);
    } else if (length >= 5) {
        uint32_t value;
        memcpy(&value, bytes + length - 4, 4);
        if (value == PROGRAM_MARK) qemu_plugin_register_vcpu_insn_exec_cb(insn, on_program_mark, CB_NO_REGS, NULL);
        if (value == OTHER_MARK) qemu_plugin_register_vcpu_insn_exec_cb(insn, on_other_mark, CB_NO_REGS, NULL);
    }
}

/* A block that begins at the place in its page where a known entry point is, and whose bytes are that file's. */
void spaces_instrument_entry(struct qemu_plugin_tb *tb) {
    struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
    uint64_t address = qemu_plugin_insn_vaddr(first);
    for (unsigned i = 0; i < nentries && address >> 63 == 0; i++) {
        if ((address & 0xfff) != entries[i].offset) continue;
        size_t count = qemu_plugin_tb_n_insns(tb), at = 0;
        int same = 1;
        for (size_t n = 0; n < count && same && at < entries[i].length; n++) {
            uint8_t bytes[16];
            size_t length = qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, n), bytes, sizeof bytes);
            size_t left = entries[i].length - at;
            same = memcmp(bytes, entries[i].bytes + at, length < left ? length : left) == 0;
            at += length;
        }
        if (same) qemu_plugin_register_vcpu_insn_exec_cb(first, on_entry, CB_NO_REGS, (void *)(uintptr_t)i);
    }
}
