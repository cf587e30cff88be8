/* engine_cuda.c - finds and opens the CUDA engine, a module of its own (src/cuda/): nothing else links anything of CUDA.
 *
 * The module is looked for beside the program (the build tree), then where it is installed. */
#include "engine_type.h"
#include "config.h"


#include "cuda/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *open_module(const char **why) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (name) {
        strcpy(name, "/" CUDA_MODULE);
        if (!access(path, R_OK)) {
            void *module = dlopen(path, RTLD_NOW);
            *why = module ? NULL : dlerror();
            return module;
        }
    }
    void *module = dlopen(MODULEDIR "/" CUDA_MODULE, RTLD_NOW);
    *why = module ? NULL : dlerror();
    return module;
}

static int cuda_open(struct engine **ret, const struct engine *head, const struct engine_options *options,
                     struct err *err) {
    const char *why;
    void *module = open_module(&why);
    if (!module)
        return err_set(err, -ENOENT, "engine cuda: %s", why);
    const char *version = dlsym(module, "primeknet_cuda_version");
    cuda_open_fn *open = (cuda_open_fn *)dlsym(module, "primeknet_cuda_open");
    if (!version || !open || strcmp(version, PACKAGE_VERSION))
        return err_set(err, -ENOEXEC, "engine cuda: %s belongs to another version of primeknet", CUDA_MODULE);
    return open(ret, head, options, err); /* it fills in a type of its own; the module stays loaded */
}

const struct engine_type engine_cuda = {.name = "cuda", .open = cuda_open};
