/* cli.h - the commands of `primeknet`. Each parses its own arguments (argv[0] is the command's name), prints what went wrong
 * as one line on stderr and returns the exit status: 0 done, 1 failed, 2 called wrongly. */
#ifndef PRIMEKNET_CLI_H
#define PRIMEKNET_CLI_H

#include <jansson.h>
#include <stdbool.h>

enum { cli_done = 0, cli_failed = 1, cli_misused = 2 };

int status_command(int argc, char **argv);
int monitor_command(int argc, char **argv);
int set_command(int argc, char **argv);
int bypass_command(int argc, char **argv);
int mics_command(int argc, char **argv);
int use_command(int argc, char **argv);
int model_command(int argc, char **argv);
int setup_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int enhance_command(int argc, char **argv);
int mix_command(int argc, char **argv);
int compare_command(int argc, char **argv);
int plot_command(int argc, char **argv);
int bench_command(int argc, char **argv);

/* "primeknet: ..." on stderr; returns cli_failed. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Asks primeknetd once. Takes `request` over; NULL, with the reason on stderr, where no answer comes. */
json_t *cli_ask(json_t *request);
/* A number in [least, most] and nothing after it. */
bool cli_number(const char *text, double least, double most, double *ret);

#endif
