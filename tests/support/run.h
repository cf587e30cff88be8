/* run.h - runs a test program's suite, and returns its exit status: whether tests failed. */
#ifndef PRIMEKNET_TESTS_RUN_H
#define PRIMEKNET_TESTS_RUN_H

#include <check.h>
#include <stdlib.h>

/* CK_FORK runs each test in its own process, unless CK_FORK=no is in the environment; CK_NOFORK does not fork. */
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
