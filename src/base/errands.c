#include "base/errands.h"

#include "base/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct errand {
    struct errand *next;
    void (*run)(void *data);
    void (*done)(void *data);
    _Alignas(max_align_t) char data[];
};

struct queue {
    struct errand *first, **end;
};

struct errands {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    struct queue waiting, run;
    bool closing;
    int event; /* readable: something has run */
};

static void put(struct queue *q, struct errand *x) {
    x->next = NULL;
    *q->end = x;
    q->end = &x->next;
}

/* NULL: there is none. */
static struct errand *take(struct queue *q) {
    struct errand *const x = q->first;
    if (x && !(q->first = x->next))
        q->end = &q->first;
    return x;
}

static struct errand *take_run(struct errands *e) {
    pthread_mutex_lock(&e->lock);
    struct errand *const x = take(&e->run);
    pthread_mutex_unlock(&e->lock);
    return x;
}

static void *run_thread(void *data) {
    struct errands *const e = data;
    struct errand *x;
    pthread_mutex_lock(&e->lock);
    while ((x = take(&e->waiting)) || !e->closing) {
        if (!x) {
            pthread_cond_wait(&e->more, &e->lock);
            continue;
        }
        pthread_mutex_unlock(&e->lock);
        x->run(x->data);
        pthread_mutex_lock(&e->lock);
        put(&e->run, x);
        eventfd_write(e->event, 1);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int errands_open(struct errands **ret, struct err *err) {
    struct errands *const e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    e->waiting.end = &e->waiting.first;
    e->run.end = &e->run.first;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->more, NULL);
    e->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int res = e->event < 0 ? errno : pthread_create(&e->thread, NULL, run_thread, e);
    if (res) {
        if (e->event >= 0)
            close(e->event);
        free(e);
        return err_set(err, -res, "a thread that writes files does not start: %s", strerror(res));
    }
    *ret = e;
    return 0;
}

void errands_close(struct errands *e) {
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_cond_signal(&e->more);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    for (struct errand *x; (x = take(&e->run));)
        free(x);
    pthread_cond_destroy(&e->more);
    pthread_mutex_destroy(&e->lock);
    close(e->event);
    free(e);
}

static void finish(struct errand *x) {
    if (x->done)
        x->done(x->data);
    free(x);
}

int errands_send(struct errands *e, void (*run)(void *data), void (*done)(void *data), const void *data, size_t n) {
    struct errand *const x = malloc(sizeof *x + n);
    if (!x)
        return -ENOMEM;
    *x = (struct errand){.run = run, .done = done};
    memcpy(x->data, data, n);
    if (!e) {
        run(x->data);
        finish(x);
        return 0;
    }
    pthread_mutex_lock(&e->lock);
    put(&e->waiting, x);
    pthread_cond_signal(&e->more);
    pthread_mutex_unlock(&e->lock);
    return 0;
}

/* data: the path, and after its NUL the text */
static void write_file(void *data) {
    const char *const path = data, *const text = path + strlen(path) + 1;
    struct err err;
    file_write(path, text, strlen(text), &err);
}

void errands_write(struct errands *e, const char *path, const char *text) {
    const size_t n_path = strlen(path) + 1, n_text = strlen(text) + 1;
    char *const both = malloc(n_path + n_text);
    if (!both)
        return;
    memcpy(both, path, n_path);
    memcpy(both + n_path, text, n_text);
    errands_send(e, write_file, NULL, both, n_path + n_text);
    free(both);
}

int errands_fd(const struct errands *e) {
    return e->event;
}

void errands_dispatch(struct errands *e) {
    eventfd_t count;
    eventfd_read(e->event, &count);
    for (struct errand *x; (x = take_run(e));)
        finish(x);
}
