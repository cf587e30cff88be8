/* engine_cuda.c - finds and opens the CUDA engine. The engine is a module (src/engine/cuda/), so that nothing else
 * links to CUDA.
 *
 * It is searched for beside the program (the build tree), then in the install directory. */
#include "engine/engine_type.h"
#include "config.h"
#include "base/beside.h"
#include "engine/cuda/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Loaded on first use, and never unloaded. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct cuda_module *cuda;

static int load(struct err *err) {
    char path[PATH_MAX];
    if (!beside_find(path, CUDA_MODULE))
        snprintf(path, sizeof path, "%s", MODULEDIR "/" CUDA_MODULE);
    if (access(path, F_OK) != 0)
        return err_set(err, -ENOENT, "engine cuda: the module is not installed (%s)", path);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return err_set(err, -ENOEXEC, "engine cuda: %s", dlerror());
    const struct cuda_module *found = dlsym(module, "primeknet_cuda");
    if (!found || strcmp(found->version, PACKAGE_VERSION) != 0) {
        dlclose(module);
        return err_set(err, -ENOEXEC, "engine cuda: %s belongs to another version of primeknet", path);
    }
    cuda = found;
    return 0;
}

int engine_find_cuda(struct err *err) {
    pthread_mutex_lock(&lock);
    int code = cuda ? 0 : load(err);
    pthread_mutex_unlock(&lock);
    return code;
}

static int cuda_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                     struct err *err) {
    int code = engine_find_cuda(err);
    return code ? code : cuda->open(ret, common, options, err); /* fills in its own type */
}

void engine_rest(void) {
    pthread_mutex_lock(&lock);
    if (cuda)
        cuda->rest();
    pthread_mutex_unlock(&lock);
}

const struct engine_type engine_cuda = {.name = "cuda", .open = cuda_open};
