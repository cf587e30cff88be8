/* run.h - how a test program ends: its suite is run, and what failed is its exit status. */
#ifndef PRIMEKNET_TESTS_RUN_H
#define PRIMEKNET_TESTS_RUN_H

#include <check.h>
#include <stdlib.h>

/* CK_FORK gives each test a process of its own, unless CK_FORK=no is in the environment; CK_NOFORK gives none. */
static inline int run_suite(Suite *suite, enum fork_status fork) {
    SRunner *runner = srunner_create(suite);
    if (fork == CK_NOFORK)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
