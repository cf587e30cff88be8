/* A plugin for qemu-user 7.2 (Debian's qemu-user, not qemu-user-static) that counts a program's instructions. In the
 * folder of scripts/aarch64, after `make bench-hop`:
 *     gcc -shared -fPIC -o instructions.so SOURCE/bench/instructions.c
 *     qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$PWD/root/usr/lib/aarch64-linux-gnu \
 *         -plugin ./instructions.so ./bench-hop small cpu 11 0
 * The difference between two numbers of hops is their cost. What it needs of QEMU's plugin interface, version 1, is
 * declared here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int add, void *to, uint64_t number);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*end)(uint64_t id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const void *about_qemu, int argc, char **argv);

static uint64_t n_executed;

static void translated(uint64_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &n_executed, qemu_plugin_tb_n_insns(block));
}

static void end(uint64_t id, void *data) {
    (void)id, (void)data;
    fprintf(stderr, "%" PRIu64 "\n", n_executed);
}

int qemu_plugin_install(uint64_t id, const void *about_qemu, int argc, char **argv) {
    (void)about_qemu, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
