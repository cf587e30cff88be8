/* primeknet set, bypass, use, model, mics: what a running primeknetd is told. */
#include "config.h"

#include "cli.h"

#include "control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 2 };

/* By hand and not by getopt: a value may begin with a dash ("floor-db -18"). */
struct call {
    const char *words[MAX_WORDS];
    int n_words;
    bool save;
};

/* Returns whether the command is to go on; *status is set otherwise. */
static bool parse(struct call *ret, int argc, char **argv, int n_words, bool saves, const char *help, int *status) {
    *ret = (struct call){0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            *status = cli_done;
            return false;
        }
        if (saves && strcmp(argv[i], "--save") == 0) {
            ret->save = true;
        } else if (strncmp(argv[i], "--", 2) != 0 && ret->n_words < n_words) {
            ret->words[ret->n_words++] = argv[i];
        } else {
            fprintf(stderr, "primeknet %s: '%s' is not expected\n%s", argv[0], argv[i], help);
            *status = cli_misused;
            return false;
        }
    }
    if (ret->n_words == n_words)
        return true;
    fputs(help, stderr);
    *status = cli_misused;
    return false;
}

json_t *cli_ask(json_t *request) {
    struct err err;
    json_t *answer = NULL;
    int fd, res = control_connect(&fd, &err);
    if (res < 0) {
        json_decref(request);
    } else {
        res = control_ask(fd, &answer, request, &err);
        close(fd);
    }
    if (res < 0)
        cli_fail("%s", err.text);
    return answer;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The setting's new value, and whether it stays. */
static int set(const char *name, const char *value, bool save) {
    json_t *answer = cli_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", "set", "name", name, "value", value, "save", save));
    if (!answer)
        return cli_failed;
    printf("%s is now %s", text_of(answer, "name"), text_of(answer, "value"));
    if (save)
        printf(", kept in %s\n", text_of(answer, "file"));
    else
        printf(", until the settings are read again; --save keeps it\n");
    if (json_is_true(json_object_get(answer, "bypass")))
        printf("bypass is on: nothing of it is heard before primeknet bypass off\n");
    json_decref(answer);
    return cli_done;
}

int set_command(int argc, char **argv) {
    static const char help[] = "Usage: primeknet set NAME VALUE [--save]\n"
                               "\n"
                               "Changes a setting of the running primeknetd, without a click: strength 0.7, floor-db -18\n"
                               "(or off), model, engine, gpu, microphone, channel, more-microphones, speaker; see\n"
                               "primeknet.conf(5).\n"
                               "  --save   also writes it into the settings file, which is otherwise left as it stands\n";
    struct call call;
    int status;
    if (!parse(&call, argc, argv, 2, true, help, &status))
        return status;
    return set(call.words[0], call.words[1], call.save);
}

int model_command(int argc, char **argv) {
    static const char help[] = "Usage: primeknet model NAME [--save]\n"
                               "\n"
                               "Another network: small, base, large, auto, or the full path of a .safetensors file. It is\n"
                               "loaded beside the running one and then faded in.\n"
                               "  --save   also writes it into the settings file\n";
    struct call call;
    int status;
    if (!parse(&call, argc, argv, 1, true, help, &status))
        return status;
    return set("model", call.words[0], call.save);
}

int bypass_command(int argc, char **argv) {
    static const char help[] = "Usage: primeknet bypass on|off|toggle\n"
                               "\n"
                               "With bypass on, Enhanced Mic sounds as the microphone does; the delay stays what it is.\n";
    struct call call;
    int status;
    if (!parse(&call, argc, argv, 1, false, help, &status))
        return status;
    json_t *answer = cli_ask(json_pack("{s:s, s:s}", "command", "bypass", "state", call.words[0]));
    if (!answer)
        return cli_failed;
    printf("bypass is %s\n", json_is_true(json_object_get(answer, "bypass")) ? "on" : "off");
    json_decref(answer);
    return cli_done;
}

/* ---- microphones ------------------------------------------------------------------------------------------------- */

int mics_command(int argc, char **argv) {
    static const char help[] = "Usage: primeknet mics\n"
                               "\n"
                               "Lists the microphones: the name for primeknet use, and what people call it. * is in use.\n";
    struct call call;
    int status;
    if (!parse(&call, argc, argv, 0, false, help, &status))
        return status;
    json_t *answer = cli_ask(json_pack("{s:s}", "command", "microphones")), *mic;
    if (!answer)
        return cli_failed;
    const json_t *mics = json_object_get(answer, "microphones");
    size_t i;
    int width = 0;
    json_array_foreach(mics, i, mic) {
        int n = (int)strlen(text_of(mic, "name"));
        width = n > width ? n : width;
    }
    json_array_foreach(mics, i, mic)
        printf("%c %-*s  %s\n", json_is_true(json_object_get(mic, "in_use")) ? '*' : ' ', width, text_of(mic, "name"),
               text_of(mic, "description"));
    if (json_array_size(mics) == 0)
        puts("There is no microphone.");
    const char *chosen = text_of(answer, "chosen");
    if (strcmp(chosen, "default") == 0)
        puts("Enhanced Mic follows the system's default.");
    else
        printf("Enhanced Mic is told to use %s; primeknet use default follows the system's.\n", chosen);
    json_decref(answer);
    return cli_done;
}

/* The microphone that is meant: a name, a description, or a part of just one of them. Prints what went wrong. */
static bool find_microphone(char *ret, size_t size, const char *wanted) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", "microphones")), *mic;
    if (!answer)
        return false;
    const json_t *found = NULL, *mics = json_object_get(answer, "microphones");
    size_t i;
    int n_found = 0;
    json_array_foreach(mics, i, mic) {
        const char *name = text_of(mic, "name"), *description = text_of(mic, "description");
        if (strcmp(name, wanted) == 0) {
            found = mic;
            n_found = 1;
            break;
        }
        if (strcasestr(name, wanted) || strcasestr(description, wanted)) {
            found = mic;
            n_found++;
        }
    }
    if (n_found == 1)
        snprintf(ret, size, "%s", text_of(found, "name"));
    else if (n_found > 1)
        cli_fail("\"%s\" may be any of %d microphones; primeknet mics lists their names", wanted, n_found);
    else
        cli_fail("there is no microphone \"%s\"; primeknet mics lists them", wanted);
    json_decref(answer);
    return n_found == 1;
}

int use_command(int argc, char **argv) {
    static const char help[] = "Usage: primeknet use MICROPHONE [--save]\n"
                               "\n"
                               "Another microphone: a name that primeknet mics lists, a part of one, or default.\n"
                               "  --save   also writes it into the settings file\n";
    char name[256] = "default";
    struct call call;
    int status;
    if (!parse(&call, argc, argv, 1, true, help, &status))
        return status;
    if (strcmp(call.words[0], "default") != 0 && !find_microphone(name, sizeof name, call.words[0]))
        return cli_failed;
    return set("microphone", name, call.save);
}
