/* protocol.h - the protocol of the control socket. docs/control.md explains it for authors of clients, and primeknet(1)
 * lists every key of a status; tests/live/test_protocol compares these with a daemon.
 *
 * Each request and each answer is one line with one JSON object. A request is {"command": COMMAND_..., ...}:
 *
 *     {"command": "status"}                              a status; "bands": true adds the spectrum bars
 *     {"command": "watch"}                               the same, again after each change
 *     {"command": "microphones"}                         "microphones" and "chosen", as in a status
 *     {"command": "apps"}                                "applications", as in a status
 *     {"command": "app", "name": NAME, "choice": "on"}   or "off", "auto": the same, after the change
 *     {"command": "set", "name": NAME, "value": VALUE}   the resulting setting; "save": true also saves it
 *     {"command": "unset", "name": NAME}                 the same, after removing its saved value
 *     {"command": "settings"}                            "settings": each as in the answer to set
 *     {"command": "profile", "state": "on"}              or "off": a status
 *     {"command": "bypass", "state": "on"}               or "off", "toggle": {"bypass": true or false}
 *
 * A refused request changes nothing (exception: CODE_NOT_SAVED). Its answer is {"error": a message for people, "code":
 * one of the words below}. The words are stable, the messages are not. Clients must ignore unknown keys, and treat an
 * unknown word as the general case. */
#ifndef PRIMEKNET_CONTROL_PROTOCOL_H
#define PRIMEKNET_CONTROL_PROTOCOL_H

/* "protocol" in a status: increases when a key or a word is removed or changes its meaning, but not when one is
 * added. */
#define CONTROL_PROTOCOL 1

enum { CONTROL_MAX_LINE = 16384 }; /* bytes of a request, its newline included */

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

/* "state" of Enhanced Mic, a further microphone or Enhanced Speaker. */
#define STATE_NO_PIPEWIRE "no PipeWire"
#define STATE_NO_MICROPHONE "no microphone"
#define STATE_NO_OUTPUT "no output" /* of Enhanced Speaker */
#define STATE_IDLE "idle"           /* nobody records (speaker: plays) */
#define STATE_WAITING "waiting for sound"
#define STATE_ENGINE_LOST "engine lost" /* the microphone passes through unchanged ... */
#define STATE_BYPASSED "bypassed"       /* ... and here because the user bypassed it */
#define STATE_ENHANCING "enhancing"

/* "code" of a refused request. */
#define CODE_BAD_REQUEST "bad_request" /* not JSON, an unknown command, or wrong arguments */
#define CODE_UNKNOWN_SETTING "unknown_setting"
#define CODE_BAD_VALUE "bad_value"
#define CODE_UNKNOWN_APPLICATION "unknown_application"
#define CODE_NO_MICROPHONE "no_microphone"     /* no microphone that could have a profile */
#define CODE_PROFILE_REFUSED "profile_refused" /* the file's profile for it cannot be used */
#define CODE_TOO_MANY_PROFILES "too_many_profiles"
#define CODE_UNUSABLE "unusable"    /* the model, GPU or channel of a setting cannot be used */
#define WHY_NO_MODEL "no_model"     /* "why" of an unusable model: there is none of that name */
#define WHY_BAD_MODEL "bad_model"   /* its file is damaged, or not one that this version reads */
#define WHY_NOT_LIVE "not_live"     /* its rate or its hop is for files only */
#define WHY_NO_MODULE "no_module"   /* of a GPU: the CUDA module is not installed */
#define WHY_BAD_MODULE "bad_module" /* it cannot be loaded, or belongs to another version */
#define WHY_NO_DEVICE "no_device"   /* there is no such GPU, or no driver for it */
#define WHY_NO_MEMORY "no_memory"   /* the GPU's memory is full */
#define WHY_NO_CODE "no_code"       /* the module cannot run this model on this GPU */
#define CODE_NOT_SAVED "not_saved"  /* the new value is in force, but could not be saved */
#define CODE_BUSY "busy"            /* too many clients or requests */
#define CODE_TIMEOUT "timeout"      /* the engine takes too long to load */
#define CODE_FAILED "failed"        /* anything else */

/* "kind" of a problem in a status. */
#define KIND_FILE "file"       /* the settings file is not in force */
#define KIND_PROFILE "profile" /* the profile of the current microphone is not in force */
#define KIND_MISSING "missing" /* something that a setting requests is missing */

/* "code" of a problem. Of a file or profile, besides CODE_UNKNOWN_SETTING, BAD_VALUE, TOO_MANY_PROFILES, UNUSABLE,
 * FAILED: */
#define CODE_DUPLICATE "duplicate" /* an earlier line sets it, too */
#define CODE_BAD_PROFILE "bad_profile"
#define CODE_BAD_SYNTAX "bad_syntax"
#define CODE_UNENDED "unended"           /* an unterminated comment or string */
#define CODE_BAD_ENCODING "bad_encoding" /* not UTF-8 text */
#define CODE_UNREADABLE "unreadable"
/* Of a setting: */
#define CODE_ABSENT "absent"         /* "name" is not present now */
#define CODE_LOOP "loop"             /* "name" carries the sound of "node" itself, which uses "instead" (if given) */
#define CODE_NO_CHANNEL "no_channel" /* the microphone "name" has no channel "word" */
#define CODE_TOO_HEAVY "too_heavy"   /* the model "name" is too heavy, so "instead" runs */
#define CODE_NO_ECHO_CANCEL "no_echo_cancel"
#define CODE_NOT_LEARNED "not_learned" /* of my_voice: no voice has been learned */
#define CODE_BAD_VOICE "bad_voice"     /* ... what was learned cannot be read, or is of another encoder */
#define CODE_NO_VOICES "no_voices"     /* ... the model "name" cannot tell voices apart */
#define CODE_FAR_VOICES "far_voices"   /* ... Enhanced Speaker is on, which must not lose the voices of others */
#define CODE_NO_FILTERS "no_filters"   /* the session manager inserts no filters */
/* Of the GPU; also the values of "gpu_unused". */
#define CODE_NO_GPU "no_gpu" /* "why" may tell the reason */
#define CODE_ON_BATTERY "on_battery"
#define CODE_GPU_ASLEEP "gpu_asleep"
#define CODE_GPU_BUSY "gpu_busy"
#define CODE_GPU_FAILED "gpu_failed"

#endif
