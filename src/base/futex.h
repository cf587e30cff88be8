/* futex.h - waits for a word of memory to change, and wakes threads that wait for it, within this process (futex(2)).
 *
 * Any thread. Real-time safe: futex_wake makes one system call that never blocks; futex_wait blocks until its timeout
 * at most. */
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

/* Sleeps while *word == value; UINT64_MAX means without a timeout. Returns false after a timeout. True may be a
 * spurious wakeup: check the word again. */
static inline bool futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
    const struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0) == 0 ||
           errno != ETIMEDOUT;
}

/* Wakes at most n waiters. */
static inline void futex_wake(_Atomic uint32_t *word, unsigned n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
