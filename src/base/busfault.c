#include "base/busfault.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local bool survives;
static _Atomic unsigned count;
static uintptr_t page;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    void *const at = (void *)((uintptr_t)info->si_addr & ~(page - 1));
    if (survives && info->si_code == BUS_ADRERR &&
        mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at)
        atomic_fetch_add(&count, 1);
    else
        signal(number, SIG_DFL); /* the same instruction faults again */
}

int busfault_install(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}

void busfault_survive(void) {
    survives = true;
}

unsigned busfault_count(void) {
    return atomic_load(&count);
}
