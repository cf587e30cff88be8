/* A daemon whose engine is too slow for the model named in the file $SLOW: a hop takes two and a half times its
 * duration. Its disk stalls while the file $SLOW_DISK exists. */
#include "base/file.h"
#include "engine/engine.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_slow(const char *model) {
    char line[64] = "";
    FILE *f = fopen(getenv("SLOW"), "re");
    if (f) {
        if (!fgets(line, sizeof line, f))
            line[0] = '\0';
        fclose(f);
    }
    line[strcspn(line, "\n")] = '\0';
    return !strcmp(line, model);
}

int __real_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    if (is_slow(model_name(engine_model(e))))
        nanosleep(&(struct timespec){.tv_nsec = 13300000}, NULL);
    return __real_engine_process(e, jobs, n_jobs);
}

static void await_disk(void) {
    const char *const stalls = getenv("SLOW_DISK");
    while (stalls && access(stalls, F_OK) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    await_disk();
    return __real_fsync(fd);
}

int __real_file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err);
int __wrap_file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err);
int __wrap_file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err) {
    await_disk();
    return __real_file_read(ret, ret_n, path, most, err);
}
