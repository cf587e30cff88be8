/* protocol.h - what the daemon and its clients say on the control socket. docs/control.md explains it to those who
 * write a client, primeknet(1) has every key of a status; tests/test_protocol compares these with a daemon.
 *
 * Each request and each answer is one line with one JSON object. A request is {"command": COMMAND_..., ...}:
 *
 *     {"command": "status"}                              a status; "bands": true for the bars, too
 *     {"command": "watch"}                               the same, and anew after each change
 *     {"command": "microphones"}                         "microphones" and "chosen", as in a status
 *     {"command": "apps"}                                "applications", as in a status
 *     {"command": "app", "name": NAME, "choice": "on"}   or "off", "auto": the same, after it
 *     {"command": "set", "name": NAME, "value": TEXT}    the setting as it is then; "save": true also saves it
 *     {"command": "profile", "state": "on"}              or "off": a status
 *     {"command": "bypass", "state": "on"}               or "off", "toggle": {"bypass": true or false}
 *
 * A refused request changes nothing (but see CODE_NOT_SAVED). Its answer is {"error": a line for people, "code": one of
 * the words below}. Words are stable, lines for people are not. Clients ignore keys that they do not know, and take a
 * word that they do not know for the general case. */
#ifndef PRIMEKNET_CONTROL_PROTOCOL_H
#define PRIMEKNET_CONTROL_PROTOCOL_H

/* "protocol" in a status: rises when a key or a word changes its meaning or goes, not when one is added. */
#define CONTROL_PROTOCOL 1

enum { CONTROL_MAX_LINE = 16384 }; /* bytes of a request, its end included */

#define COMMAND_STATUS "status"
#define COMMAND_WATCH "watch"
#define COMMAND_MICROPHONES "microphones"
#define COMMAND_APPS "apps"
#define COMMAND_APP "app"
#define COMMAND_SET "set"
#define COMMAND_PROFILE "profile"
#define COMMAND_BYPASS "bypass"

/* "state": what Enhanced Mic, a further microphone or Enhanced Speaker does. */
#define STATE_NO_PIPEWIRE "no PipeWire"
#define STATE_NO_MICROPHONE "no microphone"
#define STATE_NO_OUTPUT "no output" /* of Enhanced Speaker */
#define STATE_IDLE "idle"           /* nobody records, or plays */
#define STATE_WAITING "waiting for sound"
#define STATE_ENGINE_LOST "engine lost" /* the microphone passes through as it is ... */
#define STATE_BYPASSED "bypassed"       /* ... and here at the user's wish */
#define STATE_ENHANCING "enhancing"

#endif
