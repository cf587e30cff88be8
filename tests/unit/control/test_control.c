/* The control socket: answers, responses to garbage, and isolation: a client cannot disturb the daemon or other
 * clients. */
#include "config.h"

#include "control/client.h"
#include "control/server.h"
#include "tests/support/content.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static uid_t apart; /* of the user that the server takes itself for from the real one */

uid_t geteuid(void) {
    return (uid_t)syscall(SYS_geteuid) + apart;
}

static char runtime[] = "/tmp/primeknet-control-XXXXXX", place[128], name[128];
static struct control *control;
static unsigned n_answered;
static unsigned n_seen;
static size_t text_length;
static const char zeros[500000];

static unsigned waiting_clients[CONTROL_MAX_CLIENTS], n_waiting;

static json_t *long_answer(const json_t *request) {
    size_t n = (size_t)json_integer_value(json_object_get(request, "n"));
    char *text = malloc(n + 1);
    memset(text, 'x', n);
    text[n] = '\0';
    json_t *ret = json_pack("{s:s}", "what", text);
    free(text);
    return ret;
}

/* Answers "echo" with "what", "wait" with "it" once that is ready, and "long" with n letters; refuses everything
 * else. */
static void answer(void *data, unsigned client, const char *command, const json_t *request) {
    ck_assert_ptr_eq(data, runtime);
    n_answered++;
    if (strcmp(command, "watch") == 0) {
        control_watch(control, client);
        control_reply(
            control, client,
            json_pack("{s:i, s:o*}", "seen", ++n_seen, "text", text_length ? json_stringn(zeros, text_length) : NULL));
    } else if (strcmp(command, "wait") == 0) {
        waiting_clients[n_waiting++] = client;
    } else if (strcmp(command, "echo") == 0) {
        control_reply(control, client, json_pack("{s:O}", "what", json_object_get(request, "what")));
    } else if (strcmp(command, "long") == 0) {
        control_reply(control, client, long_answer(request));
    } else {
        control_reply(control, client, control_refuse(CODE_BAD_REQUEST, "no command \"%s\"", command));
    }
}

static void answer_who_waits(void) {
    while (n_waiting)
        control_reply(control, waiting_clients[--n_waiting], json_pack("{s:s}", "what", "it"));
}

static void set_up(void) {
    struct err err = {0};
    strcpy(runtime + strlen(runtime) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    snprintf(place, sizeof place, "%s/primeknet", runtime);
    snprintf(name, sizeof name, "%s/primeknet/control", runtime);
    n_answered = n_seen = 0;
    text_length = 0;
    n_waiting = 0;
    ck_assert_msg(control_open(&control, answer, runtime, &err) == 0, "%s", err.text);
}

static void tear_down(void) {
    control_close(control);
    control = NULL;
    ck_assert_int_lt(access(name, F_OK), 0);
    rmdir(place);
    rmdir(runtime);
}

static int connect_raw(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : (close(fd), -errno);
}

static int connect_at_once(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : (close(fd), -1);
}

/* Lets the server handle all pending work. */
static void turn(void) {
    struct pollfd fd = {.fd = control_fd(control), .events = POLLIN};
    for (int i = 0; i < 10000 && poll(&fd, 1, 0) > 0; i++)
        control_dispatch(control);
}

/* Returns the received text; "": nothing, "(end)": the end. */
static const char *heard(int fd) {
    static char text[65536];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        return "(end)";
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void say(int fd, const char *text, size_t n) {
    ck_assert_int_eq(send(fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
    turn();
}

static const char echo[] = "{\"command\":\"echo\",\"what\":\"me\"}\n", echoed[] = "{\"what\":\"me\"}\n";

static void assert_serves(int fd) {
    say(fd, echo, strlen(echo));
    ck_assert_str_eq(heard(fd), echoed);
}

START_TEST(rights) {
    struct stat st;
    ck_assert_int_eq(stat(place, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(lstat(name, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_int_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(loose_directory_is_closed) {
    struct stat st;
    struct err err;
    control_close(control);
    ck_assert_int_eq(chmod(place, 0777), 0);
    ck_assert_int_eq(control_open(&control, answer, runtime, &err), 0);
    ck_assert_int_eq(stat(place, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
}
END_TEST

/* A directory of another user, or a symbolic link to one, is left alone. */
START_TEST(strange_directory_is_refused) {
    struct stat st;
    struct err err = {0};
    char elsewhere[160];
    control_close(control);
    control = NULL;
    ck_assert_int_eq(chmod(place, 0755), 0);
    apart = 1;
    ck_assert_int_eq(control_open(&control, answer, runtime, &err), -EPERM);
    ck_assert_ptr_nonnull(strstr(err.text, "/primeknet belongs to another user"));
    ck_assert_int_eq(stat(place, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0755);
    apart = 0;
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", runtime);
    ck_assert_int_eq(rename(place, elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, place), 0);
    err.text[0] = '\0';
    ck_assert_int_lt(control_open(&control, answer, runtime, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, place));
    ck_assert_int_eq(stat(elsewhere, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0755);
    ck_assert_int_eq(unlink(place), 0);
    ck_assert_int_eq(rmdir(elsewhere), 0);
}
END_TEST

START_TEST(one_daemon_only) {
    struct control *second = NULL;
    struct err err = {0};
    ck_assert_int_eq(control_open(&second, answer, NULL, &err), -EADDRINUSE);
    ck_assert_ptr_null(second);
    ck_assert_ptr_nonnull(strstr(err.text, place));
    int fd = connect_raw();
    assert_serves(fd); /* the first has lost nothing */
    close(fd);
}
END_TEST

/* A leftover socket, file or symbolic link with the socket's name is replaced, and the link's target is left alone. */
START_TEST(leftovers_are_no_obstacle) {
    struct err err = {0};
    char victim[160];
    snprintf(victim, sizeof victim, "%s/victim", runtime);
    for (int i = 0; i < 3; i++) {
        control_close(control);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strcpy(address.sun_path, name);
        put_content(i == 1 ? name : victim, "");
        if (i == 0)
            ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
        if (i == 2)
            ck_assert_int_eq(symlink(victim, name), 0);
        close(fd);
        ck_assert_msg(control_open(&control, answer, runtime, &err) == 0, "%s", err.text);
        fd = connect_raw();
        assert_serves(fd);
        close(fd);
    }
    ck_assert_int_eq(unlink(victim), 0);
    control_close(control); /* a directory is one */
    control = NULL;
    err.text[0] = '\0';
    ck_assert_int_eq(mkdir(name, 0700), 0);
    ck_assert_int_lt(control_open(&control, answer, runtime, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, name));
    ck_assert_int_eq(rmdir(name), 0);
}
END_TEST

START_TEST(no_directory) {
    struct control *other = NULL;
    struct err err = {0};
    char path[200];
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("SUDO_UID");
    ck_assert_int_lt(control_open(&other, answer, NULL, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "XDG_RUNTIME_DIR"));
    setenv("SUDO_UID", "1000", 1);
    ck_assert_int_lt(control_open(&other, answer, NULL, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "not with sudo"));
    unsetenv("SUDO_UID");
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", path, 1);
    ck_assert_int_eq(control_open(&other, answer, NULL, &err), -ENAMETOOLONG);
    setenv("XDG_RUNTIME_DIR", "/dev/null", 1);
    ck_assert_int_lt(control_open(&other, answer, NULL, &err), 0);
    ck_assert_ptr_null(other);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
}
END_TEST

static const struct {
    const char *text;
    size_t n;
} garbage[] = {
#define LINE(text) \
    { text "\n", sizeof text }
    LINE(""),
    LINE("status"),
    LINE("{}"),
    LINE("[]"),
    LINE("[\"command\"]"),
    LINE("{\"command\":1}"),
    LINE("null"),
    LINE("\xFF\xFE"),
    LINE("{\"a\":"),
    LINE("{} {}"),
    LINE("GET / HTTP/1.1\r"),
    LINE("{\"command\":\"echo\"}"),
    LINE("{\"command\":\"no such\"}"),
    LINE("{\"command\":\"echo\",\"command\":\"echo\"}"),
    LINE("{\"command\":\"\\u0000\"}"),
    LINE("\0\0\0"),
};

START_TEST(garbage_is_refused) {
    int fd = connect_raw();
    say(fd, garbage[_i].text, garbage[_i].n);
    const char *text = heard(fd);
    /* answered, with nothing: no answer fits */
    if (strstr(garbage[_i].text, "echo\"}") && !strstr(garbage[_i].text, ",")) {
        ck_assert_str_eq(text, "(end)");
    } else {
        static const char end[] = "\",\"code\":\"bad_request\"}\n";
        const char *at = strstr(text, end);
        ck_assert_msg(strncmp(text, "{\"error\":\"", 10) == 0 && at && strlen(at) == strlen(end), "%s", text);
        assert_serves(fd);
    }
    close(fd);
}
END_TEST

/* Random bytes in random pieces are answered with whole lines, and never taken for a command. */
START_TEST(noise) {
    char bytes[4096];
    unsigned seed = seed_of_run(20261121);
    for (int round = 0; round < 200; round++) {
        int fd = connect_raw();
        size_t n = 1 + (size_t)rand_r(&seed) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = "{}[]\",:\\\n"[rand_r(&seed) % 9];
        for (size_t i = 0; i < n; i += 3)
            bytes[i] = (char)rand_r(&seed);
        say(fd, bytes, n);
        heard(fd);
        close(fd);
        turn();
    }
    ck_assert_uint_eq(n_answered, 0);
    int fd = connect_raw();
    assert_serves(fd);
    close(fd);
}
END_TEST

START_TEST(requests_in_pieces_and_in_bulk) {
    int fd = connect_raw();
    for (size_t i = 0; i + 1 < strlen(echo); i++) {
        say(fd, echo + i, 1);
        ck_assert_str_eq(heard(fd), "");
    }
    say(fd, "\n", 1);
    ck_assert_str_eq(heard(fd), echoed);

    /* The server rests while much of its answers lies unread. */
    char heap[100 * sizeof echo] = "", all[100 * sizeof echoed] = "", got[sizeof all + 1] = "";
    for (int i = 0; i < 100; i++) {
        strcat(heap, echo);
        strcat(all, echoed);
    }
    say(fd, heap, strlen(heap));
    for (int i = 0; i < 100 && strlen(got) < strlen(all); i++) {
        strncat(got, heard(fd), sizeof all - strlen(got));
        turn();
    }
    ck_assert_str_eq(got, all);

    say(fd, echo, 5); /* and then no more */
    close(fd);
    turn();
    ck_assert_uint_eq(n_answered, 101);
}
END_TEST

START_TEST(oversize_line) {
    static char line[CONTROL_MAX_LINE];
    memset(line, ' ', sizeof line);
    memcpy(line, echo, strlen(echo) - 1);
    line[sizeof line - 1] = '\n';
    int fd = connect_raw();
    say(fd, line, sizeof line); /* the longest that is taken */
    ck_assert_str_eq(heard(fd), echoed);
    line[sizeof line - 1] = ' ';
    say(fd, line, sizeof line);
    ck_assert_ptr_nonnull(strstr(heard(fd), "longer than"));
    ck_assert_str_eq(heard(fd), "(end)");
    close(fd);
    ck_assert_uint_eq(n_answered, 1);
}
END_TEST

static const char wait_for_it[] = "{\"command\":\"wait\",\"what\":\"it\"}\n", watch_it[] = "{\"command\":\"watch\"}\n";

static void fill(int fds[CONTROL_MAX_CLIENTS]) {
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        fds[i] = connect_raw();
        turn();
    }
}

static void hang_up(const int *fds, int n) {
    for (int i = 0; i < n; i++)
        close(fds[i]);
    turn();
}

/* Idle clients do not lock out others: the server disconnects the one that has been idle the longest, whatever its
 * state. Clients that keep sending requests stay. */
START_TEST(silent_clients_make_room) {
    static const char ask[] = "{\"command\":\"long\",\"n\":500000}\n";
    int fds[CONTROL_MAX_CLIENTS], more[CONTROL_MAX_CLIENTS - 1];
    fill(fds);
    say(fds[1], echo, 5);          /* half a line */
    say(fds[2], ask, strlen(ask)); /* does not read the answer */
    text_length = sizeof zeros;
    say(fds[3], watch_it, strlen(watch_it)); /* nor what it watches */
    for (int i = 0; i < CONTROL_MAX_CLIENTS - 1; i++) {
        assert_serves(fds[0]);
        if (i < CONTROL_MAX_CLIENTS - 4)
            ck_assert_str_eq(heard(fds[i + 4]), "");
        more[i] = connect_raw();
        assert_serves(more[i]);
        if (i < CONTROL_MAX_CLIENTS - 4)
            ck_assert_str_eq(heard(fds[i + 4]), "(end)");
    }
    for (int i = 1; i < 4; i++) {
        unsigned n = 0;
        while (strcmp(heard(fds[i]), "(end)") != 0)
            ck_assert_uint_lt(n++, 100); /* pieces of an answer that was not read */
    }
    hang_up(fds, CONTROL_MAX_CLIENTS);
    hang_up(more, CONTROL_MAX_CLIENTS - 1);
}
END_TEST

/* Clients that wait for an answer, or watch and read, are not disconnected. */
START_TEST(many_clients) {
    int fds[CONTROL_MAX_CLIENTS];
    fill(fds);
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
        say(fds[i], i % 2 ? wait_for_it : watch_it, strlen(i % 2 ? wait_for_it : watch_it));
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
        ck_assert_str_ne(heard(fds[i]), "(end)");
    int fd = connect_raw();
    turn();
    ck_assert_str_eq(heard(fd),
                     "{\"error\":\"primeknetd already serves as many clients as it can\",\"code\":\"busy\"}\n");
    ck_assert_str_eq(heard(fd), "(end)");
    close(fd);
    answer_who_waits();
    turn();
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        ck_assert_str_eq(heard(fds[i]), i % 2 ? "{\"what\":\"it\"}\n" : "");
        assert_serves(fds[i]);
    }
    close(fds[7]);
    turn();
    fds[7] = connect_raw();
    assert_serves(fds[7]);
    hang_up(fds, CONTROL_MAX_CLIENTS);
}
END_TEST

/* Without free descriptors, the server accepts a client in place of an idle one, or refuses it if there is none, and
 * does not spin. */
START_TEST(no_descriptors_left) {
    const int silent = connect_raw(), waiting = connect_raw(), watching = connect_raw();
    turn();
    say(waiting, wait_for_it, strlen(wait_for_it));
    say(watching, watch_it, strlen(watch_it));
    ck_assert_str_eq(heard(watching), "{\"seen\":1}\n");
    int clients[3], all[64], n = 0;
    for (int i = 0; i < 3; i++)
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const rlim_t most = (rlim_t)clients[2] + 5;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = most, .rlim_max = most}), 0);
    while (n < 64 && (all[n] = dup(silent)) >= 0)
        n++;
    ck_assert_int_eq(errno, EMFILE);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct pollfd poll_fd = {.fd = control_fd(control), .events = POLLIN};
    strcpy(address.sun_path, name);
    ck_assert_int_eq(connect(clients[0], (struct sockaddr *)&address, sizeof address), 0);
    turn();
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
    ck_assert_str_eq(heard(silent), "(end)"); /* from here on none is silent */
    assert_serves(clients[0]);
    say(clients[0], wait_for_it, strlen(wait_for_it));
    for (int i = 1; i < 3; i++)
        ck_assert_int_eq(connect(clients[i], (struct sockaddr *)&address, sizeof address), 0);
    turn();
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
    for (int i = 1; i < 3; i++) {
        ck_assert_str_eq(heard(clients[i]),
                         "{\"error\":\"primeknetd has too many files open for another client\",\"code\":\"busy\"}\n");
        ck_assert_str_eq(heard(clients[i]), "(end)");
    }
    close(clients[1]);
    while (n)
        close(all[--n]);
    const int late = connect_raw();
    assert_serves(late);
    assert_serves(watching);
    answer_who_waits();
    ck_assert_str_eq(heard(waiting), "{\"what\":\"it\"}\n");
    ck_assert_str_eq(heard(clients[0]), "{\"what\":\"it\"}\n");
    hang_up((const int[]){late, silent, waiting, watching, clients[0], clients[2]}, 6);
}
END_TEST

/* Truncation may cut a name within a character, and file names may contain any bytes. */
START_TEST(a_refusal_keeps_its_message_whatever_its_bytes) {
    static const struct {
        const char *what, *text;
    } refusals[] = {
        {"Lautst\xC3\xA4rke", "no command \"Lautst\xC3\xA4rke\""},
        {"abc\xC3", "no command \"abc?\""},
        {"/home/m\xFCller", "no command \"/home/m?ller\""},
        {"\xE2\x80", "no command \"??\""},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        json_t *refusal = control_refuse(CODE_BAD_REQUEST, "no command \"%s\"", refusals[i].what);
        ck_assert_str_eq(json_string_value(json_object_get(refusal, "error")), refusals[i].text);
        json_decref(refusal);
    }
    char longest[3000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    json_t *refusal = control_refuse(CODE_BAD_REQUEST, "%s", longest);
    ck_assert_uint_ge(strlen(json_string_value(json_object_get(refusal, "error"))), sizeof(struct err) - 1);
    json_decref(refusal);
}
END_TEST

/* A client that sends requests and never reads occupies one answer at most, and does not block others. */
START_TEST(client_that_does_not_read) {
    static const char ask[] = "{\"command\":\"long\",\"n\":500000}\n";
    int fd = connect_raw(), other = connect_raw();
    for (int i = 0; i < 1000 && send(fd, ask, strlen(ask), MSG_DONTWAIT | MSG_NOSIGNAL) > 0; i++)
        control_dispatch(control);
    for (int i = 0; i < 1000; i++)
        control_dispatch(control);
    ck_assert_uint_eq(n_answered, 1);
    assert_serves(other);
    struct pollfd poll_fd = {.fd = control_fd(control), .events = POLLIN};
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0); /* and it does not spin */
    close(fd);
    turn();
    assert_serves(other);
    close(other);
}
END_TEST

/* A client that waits for an answer does not block others, and receives the answers to its later requests in order. The
 * request of a client that disconnects is still carried out. */
START_TEST(a_waiting_client_does_not_block_others) {
    int waiting = connect_raw(), gone = connect_raw(), other = connect_raw();
    say(waiting, wait_for_it, strlen(wait_for_it));
    say(waiting, echo, strlen(echo));
    say(gone, wait_for_it, strlen(wait_for_it));
    close(gone);
    turn();
    struct pollfd poll_fd = {.fd = control_fd(control), .events = POLLIN};
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0); /* it does not spin */
    ck_assert_uint_eq(n_answered, 2);
    assert_serves(other);
    ck_assert_str_eq(heard(waiting), "");
    int third = connect_raw(); /* the place of the disconnected client stays taken until its answer */
    say(third, wait_for_it, strlen(wait_for_it));
    ck_assert_uint_eq(n_waiting, 3);
    for (unsigned i = 0; i < n_waiting; i++)
        for (unsigned k = 0; k < i; k++)
            ck_assert_uint_ne(waiting_clients[i], waiting_clients[k]);
    n_answered = 0;
    const int taken = dup(0); /* the lowest free descriptor */
    close(taken);
    answer_who_waits();
    const int freed = dup(0);
    close(freed);
    ck_assert_int_lt(freed, taken); /* that of the client that is gone */
    ck_assert_str_eq(heard(third), "{\"what\":\"it\"}\n");
    turn();
    ck_assert_str_eq(heard(waiting), "{\"what\":\"it\"}\n{\"what\":\"me\"}\n");
    ck_assert_uint_eq(n_answered, 1);
    assert_serves(waiting);
    close(waiting);
    close(third);
    close(other);
}
END_TEST

/* A watching client receives each change; one that does not read receives the last; other clients receive none. */
START_TEST(watching) {
    int first = connect_raw(), slow = connect_raw(), other = connect_raw(), gone = connect_raw();
    say(first, watch_it, strlen(watch_it));
    ck_assert_str_eq(heard(first), "{\"seen\":1}\n");
    say(gone, watch_it, strlen(watch_it));
    close(gone);
    control_changed(control);
    control_changed(control);
    turn();
    ck_assert_str_eq(heard(first), "{\"seen\":3}\n");
    assert_serves(first);
    assert_serves(other);
    say(slow, watch_it, strlen(watch_it));
    n_seen = 0;
    text_length = sizeof zeros;
    for (int i = 0; i < 1000; i++) {
        control_changed(control);
        control_dispatch(control);
    }
    ck_assert_uint_lt(n_seen, 5); /* no more is made than is read */
    struct pollfd poll_fd = {.fd = control_fd(control), .events = POLLIN};
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0); /* and it does not spin */
    assert_serves(other);
    close(first);
    close(slow);
    close(other);
}
END_TEST

/* ---- the other end ----------------------------------------------------------------------------------------------- */

static atomic_bool quit;

/* A stopped daemon: its socket exists, but no process serves it. */
START_TEST(nobody_answers) {
    struct err err = {0};
    json_t *got = NULL;
    int fd;
    ck_assert_int_eq(control_connect(&fd, &err), 0);
    ck_assert_int_eq(control_ask(fd, &got, json_pack("{s:s}", "command", "long"), &err), -ETIMEDOUT);
    ck_assert_ptr_nonnull(strstr(err.text, "primeknetd does not answer"));
    ck_assert_ptr_null(got);
    close(fd);
    int fds[64], n = 0; /* nor takes it connections any more, once many wait */
    while (n < 64 && (fds[n] = connect_at_once()) >= 0)
        n++;
    ck_assert_int_lt(n, 64);
    ck_assert_int_eq(control_connect(&fd, &err), -ETIMEDOUT);
    ck_assert_ptr_nonnull(strstr(err.text, "primeknetd does not answer"));
    while (n > 0)
        close(fds[--n]);
}
END_TEST

static void *serve_all(void *data) {
    while (!atomic_load(&quit)) {
        struct pollfd fd = {.fd = control_fd(control), .events = POLLIN};
        if (poll(&fd, 1, 20) > 0)
            control_dispatch(control);
    }
    if (data) /* what waits is ready at last */
        answer_who_waits();
    return data;
}

START_TEST(a_client_asks) {
    struct err err = {0};
    json_t *got = NULL;
    pthread_t thread;
    int fd;
    atomic_store(&quit, false);
    pthread_create(&thread, NULL, serve_all, NULL);
    ck_assert_int_eq(control_connect(&fd, &err), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(control_ask(fd, &got, json_pack("{s:s, s:i}", "command", "long", "n", 300000), &err), 0);
        ck_assert_uint_eq(strlen(json_string_value(json_object_get(got, "what"))), 300000);
        json_decref(got);
    }
    got = NULL;
    ck_assert_int_eq(control_ask(fd, &got, json_pack("{s:s}", "command", "no"), &err), -EINVAL);
    ck_assert_str_eq(err.text, "no command \"no\"");
    ck_assert_ptr_null(got);
    atomic_store(&quit, true);
    pthread_join(thread, NULL);
    control_close(control);
    ck_assert_int_lt(control_ask(fd, &got, json_pack("{s:s}", "command", "echo"), &err), 0);
    ck_assert_str_eq(err.text, "primeknetd has ended");
    close(fd);
    ck_assert_int_lt(control_connect(&fd, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "primeknetd is not running"));
    control = NULL;
}
END_TEST

static void *get_ready(void *data) {
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    atomic_store(&quit, true);
    return data;
}

/* A client waits for the answer as long as the daemon is alive. */
START_TEST(a_slow_answer) {
    struct err err = {0};
    json_t *got = NULL;
    pthread_t server, timer;
    int fd;
    atomic_store(&quit, false);
    pthread_create(&server, NULL, serve_all, runtime);
    pthread_create(&timer, NULL, get_ready, NULL);
    ck_assert_int_eq(control_connect(&fd, &err), 0);
    ck_assert_msg(control_ask(fd, &got, json_pack("{s:s, s:s}", "command", "wait", "what", "it"), &err) == 0, "%s",
                  err.text);
    ck_assert_str_eq(json_string_value(json_object_get(got, "what")), "it");
    json_decref(got);
    pthread_join(timer, NULL);
    pthread_join(server, NULL);
    close(fd);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("control");
    TCase *tcase = tcase_create("control");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, rights);
    tcase_add_test(tcase, loose_directory_is_closed);
    tcase_add_test(tcase, strange_directory_is_refused);
    tcase_add_test(tcase, one_daemon_only);
    tcase_add_test(tcase, leftovers_are_no_obstacle);
    tcase_add_test(tcase, no_directory);
    tcase_add_loop_test(tcase, garbage_is_refused, 0, sizeof garbage / sizeof garbage[0]);
    tcase_add_test(tcase, noise);
    tcase_add_test(tcase, requests_in_pieces_and_in_bulk);
    tcase_add_test(tcase, oversize_line);
    tcase_add_test(tcase, silent_clients_make_room);
    tcase_add_test(tcase, many_clients);
    tcase_add_test(tcase, no_descriptors_left);
    tcase_add_test(tcase, a_refusal_keeps_its_message_whatever_its_bytes);
    tcase_add_test(tcase, client_that_does_not_read);
    tcase_add_test(tcase, a_waiting_client_does_not_block_others);
    tcase_add_test(tcase, watching);
    tcase_add_test(tcase, nobody_answers);
    tcase_add_test(tcase, a_client_asks);
    tcase_add_test(tcase, a_slow_answer);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
