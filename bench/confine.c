/* confine [-m] GROUP COMMAND...: runs the command, without systemd, under the restrictions of the unit's options:
 * NoNewPrivileges, SystemCallFilter, SystemCallErrorNumber=EPERM, SystemCallArchitectures=native,
 * RestrictAddressFamilies=AF_UNIX, RestrictNamespaces, LockPersonality; -m adds MemoryDenyWriteExecute. GROUP is a
 * file with the calls that the filter allows, one per line, as systemd-analyze syscall-filter lists @system-service. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int res, const char *what) {
    if (res < 0) {
        fprintf(stderr, "confine: %s: %s\n", what, strerror(-res));
        exit(125);
    }
}

static void allow_group(scmp_filter_ctx filter, const char *group) {
    const int namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                           CLONE_NEWCGROUP;
    char name[64];
    FILE *f = fopen(group, "re");
    check(f ? 0 : -errno, group);
    while (fscanf(f, "%63s", name) == 1) {
        int call = seccomp_syscall_resolve_name(name);
        if (call < 0) /* not on this architecture */
            continue;
        if (call == SCMP_SYS(socket))
            check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0)), name);
        else if (call == SCMP_SYS(clone) || call == SCMP_SYS(unshare))
            check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces, 0)), name);
        else if (call == SCMP_SYS(clone3)) /* its flags cannot be filtered: libc then uses clone */
            check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0), name);
        else if (call == SCMP_SYS(personality))
            check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_EQ, 0, 0)), name);
        else
            check(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0), name);
    }
    fclose(f);
}

static void deny_write_execute(void) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC)),
          "mmap");
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)),
          "mprotect");
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(pkey_mprotect), 1,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)),
          "pkey_mprotect");
    check(seccomp_load(filter), "loading a filter");
    seccomp_release(filter);
}

int main(int argc, char **argv) {
    bool write_execute = argc < 2 || strcmp(argv[1], "-m") != 0;
    argv += write_execute ? 1 : 2;
    if (!argv[0] || !argv[1]) {
        fputs("Usage: confine [-m] GROUP COMMAND...\n", stderr);
        return 125;
    }
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0, "NoNewPrivileges");
    if (!write_execute)
        deny_write_execute();
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    allow_group(filter, argv[0]);
    check(seccomp_load(filter), "loading the filter");
    seccomp_release(filter);
    execvp(argv[1], argv + 1);
    check(-errno, argv[1]);
}
