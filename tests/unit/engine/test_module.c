/* Compares the contents of the built CUDA module, as its fat binary lists them, with configure's choice: for every .cu
 * file machine code for every architecture, and PTX of the newest one for future GPUs.
 *
 * The ELF section .nv_fatbin holds one container per source file: a header (magic, version, its size, the size of what
 * follows), then entries, each with a header (kind, version, its size, the size of what follows, and at byte 28 the
 * architecture). */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MODULE "primeknet-cuda.so"

#ifndef CUDA_ARCHS
int main(void) {
    puts("test_module: skipped: configure found no nvcc");
    return 77;
}
#else

#define FATBIN_MAGIC 0xBA55ED50u
enum { PTX = 1, MAX_ARCH = 256 }; /* the other kind is machine code */

struct container {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};

struct entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size;
    uint32_t unused[3];
    uint32_t arch;
};

static void check(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "test_module: " MODULE ": %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static const Elf64_Shdr *find_section(const char *file, size_t size, const char *name) {
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)file;
    check(size > sizeof *elf && memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0, "not an ELF file");
    check(elf->e_shoff + (size_t)elf->e_shnum * sizeof(Elf64_Shdr) <= size, "cut off");
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + elf->e_shoff);
    for (unsigned i = 0; i < elf->e_shnum; i++)
        if (strcmp(file + sections[elf->e_shstrndx].sh_offset + sections[i].sh_name, name) == 0)
            return &sections[i];
    return NULL;
}

/* Checks one source file's code. Returns whether it contains every architecture that configure chose. */
static bool complete(const char *from, const char *end) {
    bool code[MAX_ARCH] = {false}, ptx[MAX_ARCH] = {false}, all = true;
    struct entry e;
    for (; from < end; from += e.header_size + e.size) {
        check((size_t)(end - from) >= sizeof e, "a fat binary is cut off");
        memcpy(&e, from, sizeof e);
        check(e.header_size >= sizeof e && e.header_size + e.size <= (size_t)(end - from) && e.arch < MAX_ARCH,
              "a fat binary's entry makes no sense");
        *(e.kind == PTX ? &ptx[e.arch] : &code[e.arch]) = true;
        printf(" %s_%u (%llu)", e.kind == PTX ? "compute" : "sm", e.arch, (unsigned long long)e.size);
    }
    int newest = 0;
    for (char *rest, *arch = (char *)CUDA_ARCHS; *arch; arch = rest) {
        newest = (int)strtol(arch, &rest, 10);
        rest += strcspn(rest, " ");
        rest += strspn(rest, " ");
        all = all && code[newest];
    }
    printf("\n");
    return all && ptx[newest];
}

int main(void) {
    int fd = open(MODULE, O_RDONLY | O_CLOEXEC), n_complete = 0;
    struct stat st;
    check(fd >= 0 && fstat(fd, &st) == 0, strerror(errno));
    const char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    check(file != MAP_FAILED, strerror(errno));
    const Elf64_Shdr *section = find_section(file, (size_t)st.st_size, ".nv_fatbin");
    check(section && section->sh_offset + section->sh_size <= (size_t)st.st_size, "no section .nv_fatbin");

    const char *from = file + section->sh_offset, *end = from + section->sh_size;
    struct container c;
    while ((size_t)(end - from) >= sizeof c) {
        memcpy(&c, from, sizeof c);
        if (c.magic != FATBIN_MAGIC) { /* between containers: alignment */
            from += 8;
            continue;
        }
        check(c.header_size + c.size <= (size_t)(end - from), "a fat binary is cut off");
        n_complete += complete(from + c.header_size, from + c.header_size + c.size);
        from += c.header_size + c.size;
    }
    printf("%lld bytes; %d of %d source files with machine code for %s and PTX of the last\n", (long long)st.st_size,
           n_complete, N_CUDA_SOURCES, CUDA_ARCHS);
    return n_complete == N_CUDA_SOURCES ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
