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
 *     {"command": "set", "name": NAME, "value": VALUE}   the setting as it is then; "save": true also saves it
 *     {"command": "unset", "name": NAME}                 the same, without what was saved of it
 *     {"command": "settings"}                            "settings": each as in the answer to set
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
#define COMMAND_UNSET "unset"
#define COMMAND_SETTINGS "settings"
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

/* "code" of a refused request. */
#define CODE_BAD_REQUEST "bad_request" /* no JSON, no such command, or not what the command takes */
#define CODE_UNKNOWN_SETTING "unknown_setting"
#define CODE_BAD_VALUE "bad_value"
#define CODE_UNKNOWN_APPLICATION "unknown_application"
#define CODE_NO_MICROPHONE "no_microphone"       /* that could have a profile */
#define CODE_PROFILE_REFUSED "profile_refused"   /* the file has one for it, which cannot be used */
#define CODE_TOO_MANY_PROFILES "too_many_profiles"
#define CODE_UNUSABLE "unusable"                 /* the model, GPU or channel that a setting names */
#define CODE_NOT_SAVED "not_saved"               /* the new value is in force all the same */
#define CODE_BUSY "busy"                         /* too many clients, or requests */
#define CODE_TIMEOUT "timeout"                   /* the engine for it takes too long to load */
#define CODE_FAILED "failed"                     /* anything else */

/* "kind" of a problem in a status. */
#define KIND_FILE "file"       /* why the settings file is not in force */
#define KIND_PROFILE "profile" /* why the profile of the microphone in use is not */
#define KIND_MISSING "missing" /* why a setting does not have what it asks for */

/* "code" of a problem: of a file or profile CODE_UNKNOWN_SETTING, BAD_VALUE, TOO_MANY_PROFILES, UNUSABLE, FAILED and */
#define CODE_DUPLICATE "duplicate"       /* the setting stands in an earlier line, too */
#define CODE_BAD_PROFILE "bad_profile"
#define CODE_BAD_SYNTAX "bad_syntax"
#define CODE_UNENDED "unended"           /* a comment, or quotation marks */
#define CODE_BAD_ENCODING "bad_encoding" /* not UTF-8 text */
#define CODE_UNREADABLE "unreadable"
/* of a setting */
#define CODE_ABSENT "absent"       /* there is no "name" now */
#define CODE_LOOP "loop"           /* "name" has the sound of "node" itself, which uses "instead", if that is told */
#define CODE_NO_CHANNEL "no_channel" /* the microphone "name" has no "word" */
#define CODE_TOO_HEAVY "too_heavy" /* the model "name" is, so "instead" runs */
#define CODE_NO_ECHO_CANCEL "no_echo_cancel"
/* and of the GPU, also in "gpu_unused". */
#define CODE_NO_GPU "no_gpu"
#define CODE_ON_BATTERY "on_battery"
#define CODE_GPU_ASLEEP "gpu_asleep"
#define CODE_GPU_BUSY "gpu_busy"
#define CODE_GPU_FAILED "gpu_failed"

#endif
