/* The part of QEMU's plugin interface that the observer uses (include/qemu/qemu-plugin.h, version 3: QEMU 9.1 and
 * newer), declared here since no package has that header, and the three functions of glib that it cannot be used
 * without; QEMU itself provides both. */
#ifndef HOMING_QEMU_H
#define HOMING_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t mem_info;

struct qemu_info {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    union { struct { int smp_vcpus, max_vcpus; } system; };
};

enum callback_flags { CB_NO_REGS, CB_READ_REGS, CB_WRITE_REGS };
enum memory_kinds { MEM_READ = 1, MEM_WRITE };

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;

typedef struct { uint8_t *data; unsigned len; } GByteArray;
typedef struct { char *data; unsigned len; } GArray;
extern GByteArray *g_byte_array_new(void);
extern GByteArray *g_byte_array_set_size(GByteArray *, unsigned);
extern char *g_array_free(GArray *, int);

typedef struct {
    struct qemu_plugin_register *handle;
    const char *name, *feature;
} register_descriptor;

typedef void (*vcpu_callback)(plugin_id, unsigned vcpu);
typedef void (*translate_callback)(plugin_id, struct qemu_plugin_tb *);
typedef void (*execute_callback)(unsigned vcpu, void *data);
typedef void (*memory_callback)(unsigned vcpu, mem_info, uint64_t vaddr, void *data);
typedef void (*exit_callback)(plugin_id, void *data);

extern void qemu_plugin_register_vcpu_init_cb(plugin_id, vcpu_callback);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translate_callback);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, execute_callback, enum callback_flags,
                                                   void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, memory_callback, enum callback_flags,
                                             enum memory_kinds, void *);
extern void qemu_plugin_register_atexit_cb(plugin_id, exit_callback, void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern unsigned qemu_plugin_mem_size_shift(mem_info);
extern struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(mem_info, uint64_t vaddr);
extern bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
extern GArray *qemu_plugin_get_registers(void);
extern int qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *);

#endif
