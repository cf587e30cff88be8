/* These functions precede the C library's in symbol lookup, so calls from this program and its libraries reach them
 * first. The sanitizers interpose the same functions; with them the guard checks nothing. */
#include "config.h"

#include "rt_guard.h"

#ifndef SANITIZED
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local int inside;

static void check(const char *function) {
    if (inside) {
        inside = 0;
        static const char text[] = " called in a real-time section\n";
        ssize_t done = syscall(SYS_write, STDERR_FILENO, function, strlen(function));
        done = syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
        (void)done;
        abort();
    }
}

/* The function of that name that would be called without this file. */
#define NEXT(name) (*(__typeof__(name) **)&(void *){dlsym(RTLD_NEXT, #name)})

/* The C library's own functions, under the names that it keeps for this purpose. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size) {
    check("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    check("calloc");
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size) {
    check("realloc");
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    check("aligned_alloc");
    return __libc_memalign(alignment, size);
}

void free(void *memory) {
    check("free");
    __libc_free(memory);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    check("pthread_mutex_lock");
    return NEXT(pthread_mutex_lock)(mutex);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    check("pthread_cond_wait");
    return NEXT(pthread_cond_wait)(cond, mutex);
}

ssize_t read(int fd, void *to, size_t n) {
    check("read");
    return NEXT(read)(fd, to, n);
}

ssize_t write(int fd, const void *from, size_t n) {
    check("write");
    return NEXT(write)(fd, from, n);
}

int puts(const char *text) {
    check("puts");
    return NEXT(puts)(text);
}

int vfprintf(FILE *file, const char *format, va_list args) {
    check("vfprintf");
    return NEXT(vfprintf)(file, format, args);
}

int fprintf(FILE *file, const char *format, ...) {
    check("fprintf");
    va_list args;
    va_start(args, format);
    const int n = NEXT(vfprintf)(file, format, args);
    va_end(args);
    return n;
}

int printf(const char *format, ...) {
    check("printf");
    va_list args;
    va_start(args, format);
    const int n = NEXT(vfprintf)(stdout, format, args);
    va_end(args);
    return n;
}

int nanosleep(const struct timespec *time, struct timespec *rest) {
    check("nanosleep");
    return NEXT(nanosleep)(time, rest);
}

long syscall(long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number != SYS_futex)
        check("syscall");
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void rt_guard_enter(void) {
    inside = 1;
}

void rt_guard_leave(void) {
    inside = 0;
}
#else
void rt_guard_enter(void) {
}

void rt_guard_leave(void) {
}
#endif
