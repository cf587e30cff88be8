/* futex.h - waiting for a word of memory to change, and waking whoever waits for it (futex(2)), within this process.
 *
 * Threads: any. futex_wake is real-time safe: one system call that never blocks. So is futex_wait with a timeout, which
 * blocks for that long at most. */
#ifndef PRIMEKNET_FUTEX_H
#define PRIMEKNET_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is value. UINT64_MAX: without a limit. Returns false after a timeout, else true, which may be a
 * spurious wakeup: look at the word again. */
static inline bool futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
    const struct timespec t = {
        .tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0) == 0 ||
           errno != ETIMEDOUT;
}

/* Wakes at most n waiters. */
static inline void futex_wake(_Atomic uint32_t *word, unsigned n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
