#include "daemon/say.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether stderr is connected to the journal, which reads a priority at the start of each line (sd-daemon(3)). */
static bool logs_to_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

void say(const char *priority, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++) /* other programs choose the names in the graph */
        if (iscntrl((unsigned char)*c))
            *c = ' ';
    fprintf(stderr, "%s%s\n", logs_to_journal() ? priority : "primeknetd: ", line);
}
