/* What a node makes of PipeWire's graph, in whatever order it learns of it: scripts of events, with the expected
 * wishes.
 *
 * A line of a script is an event or, after "=", the expected wishes; words are separated by blanks.
 *   node ID CLASS NAME [SERIAL]    port ID NODE NUMBER CHANNEL    link ID FROM TO    metadata ID    - ID
 *   meter ID    active ID 0|1    failed ID 0|1    complete    told    lost-metadata
 *   set SUBJECT KEY VALUE    unset SUBJECT [KEY]
 *   owner ID SERIAL: of the metadata's entry    wants ID NAME
 *   own CAPTURE SOURCE    choose MICROPHONE|- CHANNEL|-    noted SERIAL TARGET|- [misled]
 *   broken ID 0|1    group ID NAME    hardware ID    priority ID N    listens ID    autoconnects ID
 *   app NAME on|off|auto    anew
 *   transparent 0|1    filters ID
 *   = [consumers N] [recorders N] [back N] [microphone ID|-] [quiet 0|1] [capture 0|1] [target NAME|-]
 *     [expected ID|-] [needed 0|1]
 *     [channel NAME] [inputs N] [played NAME|-] [lacks 0|1] [pacing 0|1] [metadata ID|-] [sets NODE:KEY:SERIAL...|-]
 *     [vain 0|1] [forgotten 0|1] [failed 0|1] [broken 0|1] [refused NAME|-] [title TEXT|-]
 *     [filtered NAME|-]
 *     [notes SERIAL[:TARGET][:misled]...|-] [choices NAME:on|off...|-]
 * reconcile is called at "=" only: the events between two of them come in one dispatch. */
#include "graph/reconcile.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 48, MOST_WORDS = 32 };

struct script {
    const char *title;
    enum node_kind kind;
    const char *lines[MOST_LINES];
};

#define OWN "own 10 11", "node 10 Stream/Input/Audio capture 100", "node 11 Audio/Source enhanced_mic 101"
#define SPEAKER \
    "own 10 11", "node 10 Audio/Sink enhanced_speaker 100", \
        "node 11 Stream/Output/Audio playback.enhanced_speaker 101", "group 10 own", "group 11 own", "metadata 5", \
        "complete", "told"
#define KNOWN OWN, "node 30 Audio/Source mic 130", "link 50 30 10", "metadata 5", "complete", "told"

#define IDLE \
    "own - 11", "node 11 Audio/Source enhanced_mic 101", "node 30 Audio/Source mic 130", "metadata 5", "complete", \
        "told", "set 0 default.audio.source {\"name\":\"mic\"}"

/* clang-format off */
static const struct script scripts[] = {
    {"nothing is known", NODE_MIC, {
        "= consumers 0 recorders 0 microphone - quiet 0 capture 1 target - channel MONO lacks 0 pacing 0 metadata - "
        "sets -"}},
    {"links may come before the nodes, and stay after them", NODE_MIC, {
        "own 10 11", "link 50 30 10", "link 51 11 40",
        "= microphone 30 consumers 1 recorders 1 pacing 1",
        "node 40 Stream/Input/Audio rec 7", "meter 40", "node 30 Audio/Source mic 8",
        "= microphone 30 consumers 1 recorders 0",
        "- 30", "- 40",
        "= microphone 30 consumers 1 recorders 1",
        "- 50", "- 51", "- 51", "- 99",
        "= microphone - consumers 0 recorders 0 pacing 0"}},
    {"links of objects without an id are no links of ours", NODE_MIC, {
        "link 50 4294967295 4294967295",
        "= microphone - consumers 0 recorders 0 pacing 0"}},
    {"the echo is what Enhanced Speaker plays on", NODE_MIC, {
        OWN, "node 20 Stream/Output/Audio playback.enhanced_speaker", "node 31 Audio/Sink phones",
        "= played -",
        "link 50 20 31",
        "= played phones",
        "- 50",
        "= played -"}},
    {"the new microphone's link comes before the old one's end", NODE_MIC, {
        OWN, "node 30 Audio/Source a", "node 31 Audio/Source b", "link 50 30 10",
        "= microphone 30",
        "link 52 31 10",
        "= microphone 31",
        "- 50",
        "= microphone 31"}},
    {"the chosen microphone is waited for, by whatever name it comes", NODE_MIC, {
        OWN, "choose alsa_input.usb-Maker-00.analog-stereo -", "node 30 Audio/Source built_in", "link 50 30 10",
        "= target alsa_input.usb-Maker-00.analog-stereo microphone 30 capture 1",
        "node 31 Audio/Source alsa_input.usb-Maker-00.2.mono",
        "= target alsa_input.usb-Maker-00.2.mono",
        "node 32 Audio/Source alsa_input.usb-Maker-00.analog-stereo",
        "= target alsa_input.usb-Maker-00.analog-stereo",
        "- 32",
        "= target alsa_input.usb-Maker-00.2.mono",
        "- 31",
        "= target alsa_input.usb-Maker-00.analog-stereo"}},
    {"of microphones that fit equally the one that came first stays", NODE_MIC, {
        OWN, "choose alsa_input.usb-Maker-00.analog-stereo -", "node 30 Audio/Source alsa_input.usb-Maker-00.2.mono",
        "= target alsa_input.usb-Maker-00.2.mono",
        "node 31 Audio/Source alsa_input.usb-Maker-00.3.pro",
        "= target alsa_input.usb-Maker-00.2.mono"}},
    {"who is never linked, or no more once the microphone or the default is another, is forgotten", NODE_MIC, {
        OWN, "complete", "metadata 5",
        "= forgotten 0",
        "node 30 Audio/Source mic 130",
        "= forgotten 1",
        "link 50 30 10", "set 0 default.audio.source {\"name\":\"mic\"}",
        "= forgotten 0",
        "- 50",
        "= forgotten 0", /* people have unlinked it */
        "- 30",
        "= forgotten 0", /* there is none */
        "node 30 Audio/Source mic 131",
        "= forgotten 1",
        "link 50 30 10",
        "= forgotten 0",
        "- 50", "node 31 Audio/Source usb 132", "set 0 default.audio.source {\"name\":\"usb\"}",
        "= forgotten 1",
        "link 50 31 10",
        "= forgotten 0",
        "- 50",
        "= forgotten 0",
        "own 12 11", "node 12 Stream/Input/Audio capture 102",
        "= forgotten 1",
        "node 20 Audio/Sink out", "link 50 20 12",
        "= forgotten 0 quiet 1",
        "- 50",
        "= forgotten 1",
        "- 5",
        "= forgotten 0"}},
    {"the mix of an interface has all its inputs", NODE_MIC, {
        KNOWN, "port 60 30 0 AUX0",
        "= channel MONO inputs 0",
        "port 61 30 1 AUX1", "port 62 30 2 AUX2", "port 63 99 0 AUX0",
        "= channel MONO inputs 3",
        "choose - 2",
        "= channel AUX1 inputs 0",
        "choose - 9",
        "= channel MONO inputs 3",
        "choose - -", "- 60", "- 61",
        "= channel MONO inputs 0"}},
    {"PipeWire could not start a stream of this node", NODE_MIC, {
        KNOWN, "group 10 own", "group 11 own", "node 12 - pacer 102", "group 12 own",
        "node 40 Stream/Input/Audio rec 7", "link 51 11 40", "broken 40 1", "broken 30 1",
        "= broken 0 notes 7",
        "broken 12 1",
        "= broken 1",
        "broken 12 0", /* PipeWire starts it after all, but without the links that it has removed */
        "= broken 1",
        "broken 11 1", "- 51", /* it loses its recorders, which are to be brought back */
        "= broken 1 notes 7",
        "own 13 14", "- 10", "- 11", "node 13 Stream/Input/Audio capture 110", "node 14 Audio/Source enhanced_mic 111",
        "= broken 0 notes 7 sets 40:target.object:111"}},
    {"PipeWire could not set up the microphone's link", NODE_MIC, {
        OWN, "complete", "metadata 5", "node 30 Audio/Source mic 130", "link 50 30 10",
        "= microphone 30 forgotten 0",
        "failed 50 1",
        "= microphone - forgotten 1",
        "- 50",
        "= forgotten 1", /* which nobody has unlinked */
        "link 51 30 10",
        "= microphone 30 forgotten 0",
        "- 51",
        "= forgotten 0"}},
    {"PipeWire could not set up a link of the visible stream", NODE_MIC, {
        KNOWN, "node 40 Stream/Input/Audio rec 7", "node 41 Stream/Input/Audio other 8", "link 51 11 40",
        "link 52 11 41",
        "= failed 0 consumers 2",
        "failed 52 1",
        "= failed 1 consumers 2",
        "- 52",
        "= failed 0",
        "link 53 30 41", "failed 53 1",
        "= failed 0"}}, /* another microphone's */
    {"a filter in front of the default microphone, which changes", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"mic\"}", "transparent 1",
        "= filtered -", /* WirePlumber 0.4 */
        "filters 6",
        "= filtered mic",
        "node 31 Audio/Source usb 131", "set 0 default.audio.source {\"name\":\"usb\"}",
        "= filtered usb microphone 30", /* before the session manager has moved the capture stream */
        "choose mic -",
        "= filtered mic",
        "choose - -", "group 31 g", "node 32 Stream/Input/Audio loop 132", "group 32 g", "link 52 11 32",
        "= filtered mic",               /* usb carries this node's own sound */
        "- 6",
        "= filtered -",
        "filters 7", "transparent 0",
        "= filtered -"}},
    {"recorders that the filter took are the session manager's after a restart", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"mic\"}", "node 40 Stream/Input/Audio rec 7", "link 51 11 40",
        "= notes 7",
        "transparent 1", "filters 6",
        "= notes -",
        "set 40 target.object 101",
        "= notes 7:101"}},
    {"a recorder of the filtered microphone comes here", NODE_MIC, {
        IDLE, "node 31 Audio/Source usb 131", "node 40 Stream/Input/Audio rec 7", "listens 40", "wants 40 mic",
        "= needed 0",
        "transparent 1", "filters 6",
        "= needed 1",
        "wants 40 usb",
        "= needed 0",
        "wants 40 130",
        "= needed 1"}},
    {"no application is left out of the filter", NODE_MIC, {
        KNOWN, "node 40 Stream/Input/Audio rec 7", "listens 40", "app rec off", "transparent 1", "filters 6",
        "link 51 11 40", "set 40 target.object 101",
        "= sets - choices rec:off"}},
    {"the capture stream is needed while somebody is linked, or comes to be", NODE_MIC, {
        IDLE,
        "= needed 0 capture 1 expected 30 microphone -",
        "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= needed 0", /* it will take the default, fake_mic */
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "= needed 1",
        "link 51 30 40",
        "= needed 0",
        "link 52 11 40",
        "= needed 1",
        "- 51", "- 52",
        "= needed 0", /* people unlinked it */
        "- 40",
        "node 41 Stream/Input/Audio other 8", "wants 41 mic", "listens 41",
        "= needed 0",
        "set 41 target.object 101",
        "= needed 1",
        "set 41 target.object 130",
        "= needed 0",
        "app other on",
        "= needed 1",
        "- 41",
        "node 42 Stream/Input/Audio by_name", "wants 42 enhanced_mic",
        "= needed 0", /* not known to take a microphone yet */
        "meter 42",
        "= needed 1",
        "- 42",
        "node 43 Stream/Input/Audio by_serial", "wants 43 101", "listens 43",
        "= needed 1",
        "app by_serial off",
        "= needed 0"}},
    {"an application is moved to the microphone while nobody records", NODE_MIC, {
        IDLE, "node 40 Stream/Input/Audio rec 7", "listens 40", "app rec off",
        "= sets 40:target.object:130"}},
    {"while nobody records the microphone is the chosen one, the default, or the session manager's", NODE_MIC, {
        IDLE, "node 31 Audio/Source other 131",
        "= expected 30",
        "choose other -",
        "= expected 31 target other",
        "- 31",
        "= expected 30",
        "choose - -", "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "node 31 Audio/Source other 131",
        "= expected 31", /* the newest of equals */
        "priority 30 9",
        "= expected 30",
        "own 10 11", "link 50 31 10",
        "= expected 31 microphone 31",
        "own - 11", "- 50", "- 10",
        "= expected 31", /* where it was moved to: the session manager remembers */
        "node 32 Audio/Source third 132", "priority 32 10",
        "= expected 32",
        "lost-metadata", "- 5",
        "= expected -"}},
    {"another microphone is chosen as the last recorder leaves", NODE_MIC, {
        IDLE, "node 31 Audio/Source other 131",
        "= expected 30",
        "own 10 11", "link 50 30 10",
        "= expected 30 target -",
        "choose other -",
        "= expected 30 target other microphone 30",
        "own - 11", "- 50", "- 10",
        "= expected 31 target other microphone -"}},
    {"a capture stream that was linked and is not follows no microphone", NODE_MIC, {
        KNOWN,
        "= expected 30",
        "- 50",
        "= expected - microphone -"}},
    {"a default that is what an output plays is not followed", NODE_MIC, {
        KNOWN, "node 20 Audio/Sink out", "set 0 default.audio.source {\"name\":\"out\"}",
        "= target mic refused - capture 1",
        "choose out -",
        "= target out",
        "choose - -", "set 0 default.audio.source {\"name\":\"mic\"}",
        "= target -"}},
    {"a default that gives out this node's sound is not followed", NODE_MIC, {
        KNOWN, "node 20 Stream/Output/Audio player", "node 21 Other filter", "node 22 Other filter2",
        "node 31 Audio/Source/Virtual effects 131", "node 32 Audio/Source other", "priority 32 9",
        "link 60 11 21", "link 61 21 22", "link 62 22 31",
        "= target - refused - microphone 30",
        "set 0 default.audio.source {\"name\":\"effects\"}",
        "= target mic refused effects capture 1 microphone 30",
        "- 60", /* the filter rests while nobody records from it */
        "= target mic refused effects",
        "- 30", "- 50",
        "= target other refused effects",
        "- 32",
        "= refused effects capture 0",
        "node 30 Audio/Source mic 133",
        "= target mic capture 1",
        "link 60 30 21",
        "= target - refused -",
        "- 60", "link 60 11 21",
        "= target mic refused effects",
        "link 63 20 22", /* beside this node's sound, which still loops */
        "= target mic refused effects",
        "- 60",
        "= target - refused -",
        "link 60 11 21",
        "= target mic refused effects",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= target - refused -"}},
    {"sound passes through a program whose streams belong together", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"effects\"}", "node 21 Stream/Input/Audio in",
        "node 22 Stream/Output/Audio out", "node 23 Audio/Sink sink", "node 24 Stream/Input/Audio in2",
        "node 31 Audio/Source effects 131", "group 21 a", "group 22 a", "group 24 b", "group 31 b",
        "link 61 22 23", "link 62 23 24",
        "= target - refused -",
        "link 60 11 21",
        "= target mic refused effects"}},
    {"a chosen microphone that loops is not followed", NODE_MIC, {
        KNOWN, "node 31 Audio/Source effects 131", "choose effects -",
        "= target effects refused - capture 1",
        "link 60 11 31",
        "= target mic refused effects capture 1",
        "- 31", "- 60",
        "= target effects refused - capture 1"}},
    {"another microphone's node has none if that loops", NODE_MORE_MIC, {
        OWN, "choose effects -", "node 31 Audio/Source effects 131", "link 60 11 31", "complete",
        "= capture 0 refused effects",
        "node 30 Audio/Source mic", "- 60", "link 60 30 31",
        "= capture 1 refused - target effects"}},
    {"while this node is the default, what the session manager takes may loop", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "node 31 Audio/Source effects 131",
        "link 60 11 31",
        "= target - refused - microphone 30",
        "- 50", "link 51 31 10",
        "= target mic refused effects",
        "- 51", "link 50 30 10",
        "= target mic refused effects microphone 30",
        "- 60", "link 60 30 31",
        "= target - refused -"}},
    {"a program that moves the capture stream into a loop is not obeyed", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"mic\"}", "node 31 Audio/Source effects 131",
        "set 10 target.object 131",
        "= sets - target -",
        "link 60 11 31",
        "= sets 10:target.node:0,10:target.object:0 target - refused -",
        "= sets -",
        "unset 10 target.node", "unset 10 target.object",
        "= sets -",
        "set 10 target.object 131",
        "= sets 10:target.node:0,10:target.object:0"}},
    {"a program that moves all recorders ends no choice", NODE_MIC, {
        KNOWN, "node 31 Audio/Source effects 131", "set 10 target.object 131", "app rec on", "app away off",
        "node 40 Stream/Input/Audio rec 7", "listens 40", "node 41 Stream/Input/Audio away 8", "listens 41",
        "= sets 40:target.object:101,41:target.object:130",
        "set 40 target.object 101", "set 41 target.object 130",
        "= sets -",
        "set 40 target.object 131", "set 41 target.object 131",
        "= sets 40:target.object:101 choices away:off,rec:on",
        "set 40 target.object 101",
        "= sets - choices away:off,rec:on",
        "node 42 Stream/Input/Audio rec 9", "set 42 target.object 131", "listens 42", /* before it was chosen for */
        "= sets 42:target.object:101",
        "set 42 target.object 101",
        "- 31", "node 31 Audio/Source effects 132", "set 10 target.object 132", "set 40 target.object 132",
        "= sets 40:target.object:101,41:target.object:130 choices away:off,rec:on",
        "set 40 target.object 101",
        "= sets -",
        "set 40 target.object 132", /* people insist */
        "= sets - choices away:off"}},
    {"who is moved to a program that gives out this node's sound has what was chosen", NODE_MIC, {
        KNOWN, "node 31 Audio/Source effects 131", "link 60 11 31", "app rec on", "app away off",
        "node 40 Stream/Input/Audio rec 7", "listens 40", "node 41 Stream/Input/Audio away 8", "listens 41",
        "= sets 40:target.object:101,41:target.object:130",
        "set 40 target.object 101", "set 41 target.object 130", "set 40 target.object 131", "set 41 target.object 131",
        "= sets 41:target.object:130 choices away:off,rec:on",
        "set 41 target.object 130",
        "= sets - choices away:off,rec:on"}},
    {"who was moved to a card's microphone, as the capture stream was, was moved by people", NODE_MIC, {
        KNOWN, "hardware 30", "set 10 target.object 130", "app rec on", "node 40 Stream/Input/Audio rec 7",
        "listens 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101",
        "= sets -",
        "set 40 target.object 130",
        "= sets - choices -"}},
    {"a channel is asked for once it is known", NODE_MIC, {
        OWN, "choose - FR", "node 30 Audio/Source mic", "link 50 30 10",
        "= channel MONO lacks 1",
        "port 60 30 0 FL", "port 61 30 1 FR", "port 62 99 1 FR",
        "= channel FR lacks 0",
        "choose - 1",
        "= channel FL lacks 0",
        "choose - 3",
        "= channel MONO lacks 1",
        "choose - mix",
        "= channel MONO lacks 0",
        "choose - 2", "- 50",
        "= channel MONO lacks 0",
        "choose mic 2",
        "= channel FR lacks 0 target mic"}},
    {"what is played is not heard unasked", NODE_MIC, {
        OWN, "node 20 Audio/Sink out", "link 50 20 10", "link 51 11 40",
        "= quiet 1 microphone - consumers 1 pacing 1",
        "node 30 Audio/Source mic", "link 52 30 10",
        "= quiet 0 microphone 30",
        "- 50",
        "= quiet 0 microphone 30",
        "- 52", "link 53 20 10", "choose out -",
        "= quiet 0 microphone 20"}},
    {"who follows the default takes no sound that is enhanced already", NODE_MIC, {
        OWN, "set 0 default.audio.source {\"name\":\"enhanced_mic.usb\"}",
        "= target usb",
        "node 30 Audio/Source usb", "node 31 Audio/Source enhanced_mic.usb",
        "= target usb",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= target -",
        "set 0 default.audio.source {\"name\":\"enhanced_mic.usb\"}", "choose mic -",
        "= target mic"}},
    {"a default that is no JSON is none", NODE_MIC, {
        OWN, "set 0 default.audio.source {\"name\":\"enhanced_mic.usb\"}", "set 0 default.audio.source {\"name\":",
        "= target -",
        "set 0 default.audio.source 7", "set 0 default.audio.source []", "unset 0", "unset 0 default.audio.source",
        "= target -"}},
    {"another microphone's node is there with its microphone", NODE_MORE_MIC, {
        OWN, "choose usb -",
        "= capture 0 title -",
        "node 30 Audio/Source usb",
        "= capture 1 target usb title Enhanced_Mic:_usb",
        "- 30",
        "= capture 0 title -"}},
    {"a speaker counts what plays", NODE_SPEAKER, {
        "own 10 11", "node 10 Audio/Sink enhanced_speaker 100", "node 11 Stream/Output/Audio playback 101",
        "node 20 Audio/Sink out", "node 40 Stream/Output/Audio player", "link 50 40 10",
        "= consumers 0 recorders 0 microphone - pacing 1 quiet 0 target -",
        "active 50 1", "link 51 11 20",
        "= consumers 1 recorders 1 microphone 20 pacing 0",
        "active 50 0",
        "= consumers 0 recorders 0 pacing 0",
        "choose out -",
        "= target out capture 1",
        "- 51",
        "= microphone - pacing 1"}},
    {"a speaker leaves an output whose sound comes back to it", NODE_SPEAKER, {
        SPEAKER, "node 30 Audio/Sink phones 130", "node 31 Audio/Sink effects 131", "node 21 Stream/Output/Audio out",
        "node 20 Stream/Output/Audio song", "group 21 a", "group 31 a", "link 50 11 30", "link 51 20 10",
        "= microphone 30 refused - sets -",
        "link 60 21 10", /* the effects play to this node, and nobody to them */
        "= microphone 30 refused - sets -",
        "- 50", "link 52 11 31",
        "= microphone 31 refused effects sets - vain 1",
        "anew", "= sets - vain 1",
        "anew", "= sets 11:target.object:130",
        "= sets - refused effects",
        "set 11 target.object 130", "- 52", "link 50 11 30",
        "= microphone 30 refused effects sets -",
        "- 60", /* the program rests */
        "= refused effects sets -",
        "- 50", "link 52 11 31", "set 11 target.object 131", /* it insists: once is enough */
        "= refused effects sets -",
        "link 60 21 30", /* it plays elsewhere */
        "= refused - sets 11:target.node:0,11:target.object:0",
        "= refused - sets -"}},
    {"an output that the echo canceller hears does not loop", NODE_SPEAKER, {
        SPEAKER, "node 30 Audio/Sink phones 130", "link 50 11 30", "node 32 Audio/Sink other 132",
        "node 22 Stream/Input/Audio echo.enhanced_mic", "group 22 mic", "node 23 Audio/Source enhanced_mic",
        "group 23 mic", "node 24 Stream/Input/Audio in", "node 25 Stream/Output/Audio out", "group 24 a", "group 25 a",
        "link 60 30 22", "link 61 23 24", "link 62 25 10",
        "= microphone 30 refused - sets -"}},
    {"a speaker has no better output than one that loops", NODE_SPEAKER, {
        SPEAKER, "node 31 Audio/Sink effects 131", "link 52 11 31", "link 60 31 10",
        "= microphone 31 refused effects sets -",
        "anew", "anew", "= sets - vain 0",
        "node 30 Audio/Sink phones 130",
        "= refused effects sets - vain 1",
        "anew", "= sets - vain 1", "anew", "= refused effects sets 11:target.object:130",
        "lost-metadata", "metadata 6", "told",
        "= vain 1", "anew", "= vain 1", "anew", "= refused effects sets 11:target.object:130"}},
    {"a speaker's defaults are of sinks", NODE_SPEAKER, {
        "own 10 11", "metadata 5",
        "set 0 default.audio.source {\"name\":\"enhanced_speaker\"}", "set 40 target.node -1",
        "set 0 default.audio.sink {\"name\":\"enhanced_speaker\"}", "set 41 target.node -1",
        "set 0 default.audio.sink {\"name\":\"out\"}",
        "= sets 41:target.node:0"}},
    {"who was misled gets back what it asked for, once another microphone is there", NODE_MIC, {
        OWN, "metadata 5", "told", "complete", "node 40 Stream/Input/Audio rec 7", "link 51 11 40",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.node -1",
        "= sets -",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0",
        "= sets -"}},
    {"who is misled anew when its target is removed is given back", NODE_MIC, {
        OWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.node -1",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.node -1", "unset 40 target.node",
        "set 41 target.node -1", "unset 41 target.object",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0,41:target.node:0",
        "= sets -"}},
    {"who is misled is noted until given back", NODE_MIC, {
        OWN, "complete", "told", "node 40 Stream/Input/Audio rec 7", "link 51 11 40",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.node -1",
        "= notes 7:misled",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0",
        "= notes 7"}},
    {"who was misled before this process is given back", NODE_MIC, {
        "noted 7 - misled", "noted 8 -1 misled", "noted 9 - misled", OWN, "set 40 target.node -1",
        "set 41 target.object -1", "node 40 Stream/Input/Audio rec 7", "node 41 Stream/Input/Audio rec 8",
        "node 43 Stream/Input/Audio other 10", "set 43 target.node -1", "complete", "told",
        "= sets - notes 7:misled,8:-1:misled",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "= sets - notes 7:misled,8:-1:misled",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0,41:target.object:0",
        "= sets - notes -"}},
    {"who is misled and then moved by people is not given back", NODE_MIC, {
        OWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "set 40 target.object -1", "set 40 target.object 30",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets -"}},
    {"whom people had follow the default follows it", NODE_MIC, {
        OWN, "set 0 default.configured.audio.source {\"name\":\"enhanced_mic\"}",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.object -1",
        "set 0 default.audio.source {\"name\":\"mic\"}", "set 41 target.object -1",
        "= sets -"}},
    {"a sink is no other microphone", NODE_MIC, {
        OWN, "node 20 Audio/Sink out", "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "set 40 target.node -1", "set 0 default.audio.source {\"name\":\"out\"}",
        "= sets -",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.node:0"}},
    {"a default that goes is no other microphone", NODE_MIC, {
        OWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.object -1",
        "unset 0 default.audio.source",
        "= sets -",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets 40:target.object:0"}},
    {"who recorded is asked back, once, when all is known", NODE_MIC, {
        "noted 7 -", "noted 8 -", "own 10 11", "node 40 Stream/Input/Audio rec 7",
        "= sets -",
        "node 11 Audio/Source enhanced_mic 101", "complete",
        "= sets -",
        "metadata 5", "told",
        "= sets 40:target.object:101 notes 7 consumers 0",
        "set 40 target.object 101",
        "= sets - notes 7:101",
        "link 51 11 40",
        "= sets - notes 7:101 consumers 1 back 1",
        "- 51",
        "= sets - notes - back 0",
        "link 52 11 40",
        "= notes 7:101 back 0",
        "- 52", "- 11", "own 10 12", "node 12 Audio/Source enhanced_mic 102",
        "= sets 40:target.object:102"}},
    {"who played is asked back to the speaker", NODE_SPEAKER, {
        "noted 7 -", "noted 8 -", "own 10 11", "node 10 Audio/Sink enhanced_speaker 100",
        "node 40 Stream/Output/Audio player 7", "node 41 Stream/Input/Audio rec 8", "complete", "metadata 5", "told",
        "= sets 40:target.object:100 notes 7",
        "link 51 40 10",
        "= sets - notes 7 back 1",
        "- 51", "own - 11", "- 10",
        "= sets - notes 7 back 0",
        "own 12 11", "node 12 Audio/Sink enhanced_speaker 102",
        "= sets 40:target.object:102"}},
    {"who chose otherwise since is not asked back", NODE_MIC, {
        "noted 7 -", "noted 8 55", OWN, "complete", "told", "set 40 target.object 30", "set 41 target.object 55",
        "node 40 Stream/Input/Audio a 7", "node 41 Stream/Input/Audio b 8", "node 42 Stream/Input/Audio c 9",
        "= sets 41:target.object:101"}},
    {"what people chose may be told before the recorder is", NODE_MIC, {
        OWN, "complete", "told", "set 40 target.object 101",
        "= notes -",
        "node 40 Stream/Input/Audio rec 7", "link 51 11 40",
        "= notes 7:101",
        "own 10 12", "- 51", "node 12 Audio/Source enhanced_mic 102",
        "= sets 40:target.object:102"}},
    {"the next node with a number has its own target", NODE_MIC, {
        OWN, "complete", "told", "owner 40 7", "node 40 Stream/Input/Audio old 7", "set 40 target.object 30",
        "owner 40 8", "set 40 target.object 101", "link 51 11 40",
        "= notes 7",
        "- 51", "- 40", "node 40 Stream/Input/Audio new 8", "link 51 11 40",
        "= notes 8:101",
        "own 10 12", "- 51", "node 12 Audio/Source enhanced_mic 102",
        "= sets 40:target.object:102"}},
    {"meters and who follows the default are not noted", NODE_MIC, {
        OWN, "complete", "told", "node 40 Stream/Input/Audio meter 7", "meter 40", "link 51 11 40",
        "node 41 Stream/Input/Audio rec 8", "link 52 11 41",
        "= notes 8",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "= notes -",
        "set 41 target.object 101", /* but one that was moved here is */
        "= notes 8:101"}},
    {"a choice moves who records now, and who comes", NODE_MIC, {
        KNOWN, "node 40 Stream/Input/Audio rec 7", "listens 40", "node 41 Stream/Input/Audio other 8", "listens 41",
        "= sets -",
        "app rec on",
        "= sets 40:target.object:101 choices rec:on",
        "= sets -",
        "set 40 target.object 101",
        "= sets -",
        "node 42 Stream/Input/Audio rec 9",
        "= sets -",
        "listens 42",
        "= sets 42:target.object:101",
        "app other off", "app nobody off",
        "= sets 41:target.object:130 choices nobody:off,other:off,rec:on",
        "set 42 target.object 101", "set 41 target.object 130", "app rec off",
        "= sets 40:target.object:130,42:target.object:130",
        "set 40 target.object 130", "set 42 target.object 130",
        "= sets - choices nobody:off,other:off,rec:off"}},
    {"nobody is moved before all is known", NODE_MIC, {
        "app rec on", "app away off", OWN, "metadata 5", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "node 41 Stream/Input/Audio away 8", "listens 41",
        "= sets -",
        "complete",
        "= sets -",
        "told",
        "= sets 40:target.object:101",
        "node 30 Audio/Source mic 130", "link 50 30 10",
        "= sets 41:target.object:130"}},
    {"another node moves nobody", NODE_MORE_MIC, {
        "app rec on", KNOWN, "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets -"}},
    {"whom people move elsewhere stays there, and its choice ends", NODE_MIC, {
        KNOWN, "node 31 Audio/Source usb 131", "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101",
        "= sets - choices rec:on",
        "set 40 target.object 131",
        "= sets - choices -",
        "app rec on",
        "= sets 40:target.object:101",
        "set 40 target.object 101",
        "= sets - choices rec:on",
        "set 40 target.object -1",
        "= sets - choices -",
        "app rec off",
        "= sets - choices rec:off",
        "set 40 target.object 131",
        "= sets - choices rec:off",
        "set 40 target.object 101",
        "= sets - choices -"}},
    {"who is moved by a choice is not given back", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "node 40 Stream/Input/Audio rec 7",
        "listens 40", "set 40 target.node -1", "app rec on",
        "= sets 40:target.object:101",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets -"}},
    {"what was set before a choice is heard of is not people's", NODE_MIC, {
        KNOWN, "node 31 Audio/Source usb 131", "node 40 Stream/Input/Audio rec 7", "listens 40", "app rec on",
        "= sets 40:target.object:101",
        "set 40 target.object 131",
        "= sets - choices rec:on",
        "set 40 target.object 101",
        "= sets - choices rec:on"}},
    {"who is elsewhere from the start stays", NODE_MIC, {
        "app rec on", "app away off", KNOWN, "node 31 Audio/Source usb 131", "set 40 target.object 131",
        "set 41 target.object 101", "set 42 target.object 77", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "node 41 Stream/Input/Audio away 8", "listens 41", "node 42 Stream/Input/Audio rec 9", "listens 42",
        "= sets 42:target.object:101 choices away:off,rec:on"}},
    {"what is cleared with a former node is set again", NODE_MIC, {
        KNOWN, "node 31 Audio/Source usb 131", "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101", "unset 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101", "set 40 target.object 131",
        "= sets - choices -"}},
    {"a former node's entry is not the next one's", NODE_MIC, {
        KNOWN, "app rec on", "owner 40 7", "node 40 Stream/Input/Audio rec 7", "listens 40", "set 40 target.object 101",
        "link 51 11 40",
        "= sets - notes 7:101",
        "- 51", "- 40", "node 40 Stream/Input/Audio rec 8", "listens 40",
        "= sets 40:target.object:101",
        "owner 40 8", "set 40 target.node -1",
        "= sets -",
        "- 40", "node 40 Stream/Input/Audio other 9", "link 51 11 40",
        "= notes 9",
        "owner 40 9", "set 40 target.node -1",
        "= notes 9"}},
    {"a former node was misled, the next one is not", NODE_MIC, {
        OWN, "complete", "told", "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "owner 40 7",
        "node 40 Stream/Input/Audio rec 7", "link 51 11 40", "set 40 target.node -1",
        "= notes 7:misled",
        "- 51", "- 40", "owner 40 8", "node 40 Stream/Input/Audio new 8", "link 51 11 40",
        "set 0 default.audio.source {\"name\":\"mic\"}",
        "= sets - notes 8"}},
    {"the node is another one, the microphone is another one", NODE_MIC, {
        KNOWN, "node 31 Audio/Source usb 131", "app rec on", "app away off", "node 40 Stream/Input/Audio rec 7",
        "listens 40", "node 41 Stream/Input/Audio away 8", "listens 41",
        "= sets 40:target.object:101,41:target.object:130",
        "set 40 target.object 101", "set 41 target.object 130",
        "= sets -",
        "link 52 31 10",
        "= sets 41:target.object:131",
        "set 41 target.object 131",
        "- 11", "own 10 12", "node 12 Audio/Source enhanced_mic 102",
        "= sets 40:target.object:102",
        "set 40 target.object 102", "- 52", "- 31", "- 50",
        "= sets - choices away:off,rec:on",
        "link 53 30 10",
        "= sets 41:target.object:130 choices away:off,rec:on"}},
    {"the default leads here, too", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}",
        "set 0 default.configured.audio.source {\"name\":\"enhanced_mic\"}",
        "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101",
        "= sets -",
        "set 40 target.object -1",
        "= sets - choices rec:on",
        "app rec off",
        "= sets 40:target.object:130",
        "set 40 target.object 130",
        "= sets -",
        "set 40 target.object -1",
        "= sets - choices -"}},
    {"who moved in vain is asked anew", NODE_MIC, {
        KNOWN, "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40", "link 52 30 40",
        "node 41 Stream/Input/Audio other 8",
        "= sets 40:target.object:101 vain 0",
        "set 40 target.object 101", "- 52",
        "= sets - vain 1",
        "anew",
        "= sets 40:target.object:0,40:target.object:101 vain 1",
        "unset 40 target.object", "set 40 target.object 101",
        "= sets - vain 1",
        "link 51 11 40", "anew",
        "= sets - vain 0"}},
    {"the session manager looks again at a recorder that it left unlinked", NODE_MIC, {
        KNOWN, "group 10 own", "group 11 own", "node 40 Stream/Input/Audio rec 7", "wants 40 enhanced_mic",
        "= sets - vain 0", /* nobody is to link it */
        "autoconnects 40",
        "= sets - vain 1",
        "anew",
        "= sets - vain 1", /* the session manager may be about to */
        "anew",
        "= sets 11:target.object:101,11:target.object:0 vain 1",
        "set 11 target.object 101", "unset 11 target.object",
        "= sets - vain 1",
        "anew",
        "= sets 11:target.object:101,11:target.object:0 vain 1",
        "lost-metadata", "anew",
        "= sets - vain 0",
        "told", "anew",
        "= sets - vain 1",
        "link 51 11 40", "anew",
        "= sets - vain 0",
        "- 51", "anew",
        "= sets - vain 1", /* counted from its new loss */
        "link 51 30 40", "anew",
        "= sets - vain 0",
        "- 51", "wants 40 mic", "anew", "= sets - vain 0", "anew",
        "= sets - vain 0"}},
    {"of the recorders without a choice it looks again where this node is the default", NODE_MIC, {
        KNOWN, "group 10 own", "group 11 own", "autoconnects 10", "node 40 Stream/Input/Audio rec 7",
        "autoconnects 40", "set 0 default.audio.source {\"name\":\"mic\"}", "anew", "= vain 0", "anew",
        "= sets - vain 0",
        "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "anew", "= vain 1", "anew",
        "= sets 11:target.object:101,11:target.object:0 vain 1",
        "- 40", "- 50", "anew", "= vain 0", "anew",
        "= sets - vain 0"}}, /* this node's own streams are none of them */
    {"the session manager looks again at a player that it left unlinked", NODE_SPEAKER, {
        SPEAKER, "node 40 Stream/Output/Audio music 7", "wants 40 100", "autoconnects 40",
        "node 41 Stream/Input/Audio rec 8", "wants 41 100", "autoconnects 41",
        "anew", "= sets - vain 1", "anew",
        "= sets 10:target.object:100,10:target.object:0 vain 1",
        "link 51 40 10",
        "= sets - vain 0"}},
    {"who is asked back does not end a choice of the microphone, which is to come", NODE_MIC, {
        "noted 7 -", "app rec off", OWN, "metadata 5", "complete", "told", "node 40 Stream/Input/Audio rec 7",
        "= sets 40:target.object:101",
        "listens 40", "set 40 target.object 101",
        "= sets - choices rec:off",
        "link 51 11 40",
        "= sets - choices rec:off",
        "node 30 Audio/Source mic 130", "link 50 30 10",
        "= sets 40:target.object:130 choices rec:off",
        "set 40 target.object 130", "- 51",
        "= sets - choices rec:off",
        "set 40 target.object 101",
        "= sets - choices -"}},
    {"who was misled is not given back from where it was chosen to be", NODE_MIC, {
        KNOWN, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "set 40 target.object -1",
        "node 40 Stream/Input/Audio rec 7", "listens 40", "app rec on",
        "= sets 40:target.object:101",
        "set 0 default.audio.source {\"name\":\"mic\"}", "set 40 target.object 101",
        "= sets - choices rec:on"}},
    {"without a choice a recorder is the session manager's", NODE_MIC, {
        KNOWN, "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets 40:target.object:101",
        "set 40 target.object 101", "app rec auto",
        "= sets 40:target.node:0,40:target.object:0 choices -",
        "= sets -",
        "unset 40 target.node", "unset 40 target.object",
        "= sets -",
        "app rec on",
        "= sets 40:target.object:101"}},
    {"the next session manager is told anew", NODE_MIC, {
        KNOWN, "app rec on", "node 40 Stream/Input/Audio rec 7", "listens 40",
        "= sets 40:target.object:101",
        "lost-metadata",
        "= sets -",
        "told",
        "= sets 40:target.object:101 choices rec:on"}},
    {"the next session manager is followed when the former one is gone", NODE_MIC, {
        "metadata 5", "metadata 6",
        "= metadata 5",
        "- 5",
        "= metadata 6",
        "- 6",
        "= metadata -"}},
    {"what the former session manager was told does not count", NODE_MIC, {
        OWN, "complete", "told", "node 40 Stream/Input/Audio rec 7", "set 40 target.object 30", "link 51 11 40",
        "= notes 7:30",
        "lost-metadata",
        "= notes 7:30",
        "told",
        "= notes 7",
        "own 10 12", "- 51", "node 12 Audio/Source enhanced_mic 102",
        "= sets 40:target.object:102"}},
};
/* clang-format on */

/* ---- playing ----------------------------------------------------------------------------------------------------- */

struct play {
    struct mirror m;
    struct wishes w;
    char microphone[256], target[256];
};

static uint32_t number(const char *text) {
    return strcmp(text, "-") == 0 ? MIRROR_NONE : (uint32_t)strtoul(text, NULL, 10);
}

static unsigned split(char *line, char *words[MOST_WORDS]) {
    unsigned n = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        ck_assert_uint_lt(n, MOST_WORDS);
        words[n++] = word;
    }
    for (unsigned i = n; i < MOST_WORDS; i++)
        words[i] = NULL;
    return n;
}

static void add_node(struct mirror *m, char *const *a) {
    struct mirror_node *const node = mirror_add_node(m, number(a[1]));
    snprintf(node->name, sizeof node->name, "%s", a[3]);
    snprintf(node->description, sizeof node->description, "%s", a[3]);
    node->role = mirror_role(a[2], a[3]);
    node->serial = a[4] ? number(a[4]) : 1000 + node->id;
}

static void add_port(struct mirror *m, char *const *a) {
    struct mirror_port *const port = mirror_add_port(m, number(a[1]));
    port->node = number(a[2]);
    port->number = number(a[3]);
    snprintf(port->channel, sizeof port->channel, "%s", a[4]);
}

static void add_link(struct mirror *m, char *const *a) {
    struct mirror_link *const link = mirror_add_link(m, number(a[1]));
    link->from = number(a[2]);
    link->to = number(a[3]);
}

static const char *choice(char kept[], size_t size, const char *word) {
    snprintf(kept, size, "%s", word);
    return strcmp(word, "-") == 0 ? NULL : kept;
}

static void open_streams(struct play *p, uint32_t capture, uint32_t source) {
    struct mirror *const m = &p->m;
    if (capture != m->own.capture)
        snprintf(p->target, sizeof p->target, "%s", p->w.target);
    m->own.capture = capture;
    m->own.source = source;
    m->own.target = p->target;
}

static void play_event(struct play *p, char *const *a) {
    struct mirror *const m = &p->m;
    const char *const event = a[0];
    if (strcmp(event, "node") == 0)
        add_node(m, a);
    else if (strcmp(event, "port") == 0)
        add_port(m, a);
    else if (strcmp(event, "link") == 0)
        add_link(m, a);
    else if (strcmp(event, "metadata") == 0)
        mirror_add_metadata(m, number(a[1]));
    else if (strcmp(event, "-") == 0)
        mirror_remove(m, number(a[1]));
    else if (strcmp(event, "meter") == 0)
        mirror_node(m, number(a[1]))->meter = true;
    else if (strcmp(event, "listens") == 0)
        mirror_node(m, number(a[1]))->listens = true;
    else if (strcmp(event, "autoconnects") == 0)
        mirror_node(m, number(a[1]))->autoconnects = true;
    else if (strcmp(event, "wants") == 0)
        snprintf(mirror_node(m, number(a[1]))->wanted, sizeof m->nodes->wanted, "%s", a[2]);
    else if (strcmp(event, "app") == 0)
        ck_assert_int_eq(mirror_choose(m, a[1], a[2]), 0);
    else if (strcmp(event, "group") == 0)
        snprintf(mirror_node(m, number(a[1]))->group, sizeof m->nodes->group, "%s", a[2]);
    else if (strcmp(event, "hardware") == 0)
        mirror_node(m, number(a[1]))->hardware = true;
    else if (strcmp(event, "priority") == 0)
        mirror_node(m, number(a[1]))->priority = number(a[2]);
    else if (strcmp(event, "failed") == 0)
        mirror_report_link(m, mirror_link(m, number(a[1])), false, strcmp(a[2], "1") == 0);
    else if (strcmp(event, "broken") == 0)
        mirror_report_node(mirror_node(m, number(a[1])), strcmp(a[2], "1") == 0);
    else if (strcmp(event, "active") == 0)
        mirror_link(m, number(a[1]))->active = strcmp(a[2], "1") == 0;
    else if (strcmp(event, "complete") == 0)
        m->complete = true;
    else if (strcmp(event, "transparent") == 0)
        m->own.transparent = number(a[1]);
    else if (strcmp(event, "filters") == 0)
        m->filters = number(a[1]);
    else if (strcmp(event, "anew") == 0)
        m->ask_anew = true;
    else if (strcmp(event, "told") == 0)
        m->metadata_complete = true;
    else if (strcmp(event, "lost-metadata") == 0)
        mirror_lose_metadata(m);
    else if (strcmp(event, "set") == 0)
        mirror_property(m, number(a[1]), a[2], a[3]);
    else if (strcmp(event, "owner") == 0)
        mirror_own_target(m, number(a[1]), number(a[2]));
    else if (strcmp(event, "unset") == 0)
        mirror_property(m, number(a[1]), a[2], NULL);
    else if (strcmp(event, "own") == 0)
        open_streams(p, number(a[1]), number(a[2]));
    else if (strcmp(event, "choose") == 0)
        m->own.microphone = choice(p->microphone, sizeof p->microphone, a[1]),
        channel_parse(&m->own.channel, strcmp(a[2], "-") == 0 ? NULL : a[2]);
    else if (strcmp(event, "noted") == 0) {
        struct recall_stream s = {.serial = number(a[1]), .misled = a[3]};
        snprintf(s.target, sizeof s.target, "%s", strcmp(a[2], "-") == 0 ? "" : a[2]);
        recall_add(&m->noted, &s);
    } else
        ck_abort_msg("no such event: %s", event);
}

static void describe_sets(const struct wishes *w, char ret[512]) {
    strcpy(ret, w->n_targets ? "" : "-");
    for (unsigned i = 0; i < w->n_targets; i++)
        sprintf(ret + strlen(ret), "%s%u:%s:%" PRIu64, i ? "," : "", w->targets[i].node, w->targets[i].key,
                w->targets[i].serial);
}

static void describe_notes(const struct recall *r, char ret[512]) {
    strcpy(ret, r->n ? "" : "-");
    for (unsigned i = 0; i < r->n; i++)
        sprintf(ret + strlen(ret), "%s%" PRIu64 "%s%s%s", i ? "," : "", r->streams[i].serial,
                r->streams[i].target[0] ? ":" : "", r->streams[i].target, r->streams[i].misled ? ":misled" : "");
}

static void describe_choices(json_t *choices, char ret[512]) {
    char *const text = json_dumps(choices, JSON_COMPACT | JSON_SORT_KEYS);
    unsigned n = 0;
    for (const char *c = text; *c; c++)
        if (!strchr("{}\"", *c))
            ret[n++] = *c;
    ret[n] = '\0';
    free(text);
    if (!n)
        strcpy(ret, "-");
}

static void describe_id(uint32_t id, char ret[512]) {
    snprintf(ret, 512, id == MIRROR_NONE ? "-" : "%u", id);
}

static void describe(const struct play *p, const char *what, char ret[512]) {
    const struct wishes *const w = &p->w;
    if (strcmp(what, "microphone") == 0)
        describe_id(w->microphone, ret);
    else if (strcmp(what, "expected") == 0)
        describe_id(w->expected, ret);
    else if (strcmp(what, "metadata") == 0)
        describe_id(w->metadata, ret);
    else if (strcmp(what, "sets") == 0)
        describe_sets(w, ret);
    else if (strcmp(what, "notes") == 0)
        describe_notes(&p->m.noted, ret);
    else if (strcmp(what, "choices") == 0)
        describe_choices(p->m.choices, ret);
    else if (strcmp(what, "target") == 0)
        snprintf(ret, 512, "%s", w->target[0] ? w->target : "-");
    else if (strcmp(what, "refused") == 0)
        snprintf(ret, 512, "%s", w->refused[0] ? w->refused : "-");
    else if (strcmp(what, "filtered") == 0)
        snprintf(ret, 512, "%s", w->filtered[0] ? w->filtered : "-");
    else if (strcmp(what, "played") == 0)
        snprintf(ret, 512, "%s", w->played[0] ? w->played : "-");
    else if (strcmp(what, "channel") == 0)
        snprintf(ret, 512, "%s", w->channel);
    else if (strcmp(what, "title") == 0) {
        snprintf(ret, 512, "%s", w->title[0] ? w->title : "-");
        for (char *c = ret; *c; c++)
            *c = *c == ' ' ? '_' : *c;
    } else
        snprintf(ret, 512, "%u",
                 strcmp(what, "consumers") == 0   ? w->n_consumers
                 : strcmp(what, "recorders") == 0 ? w->n_recorders
                 : strcmp(what, "back") == 0      ? w->n_brought_back
                 : strcmp(what, "quiet") == 0     ? w->quiet
                 : strcmp(what, "capture") == 0   ? w->capture
                 : strcmp(what, "needed") == 0    ? w->needed
                 : strcmp(what, "inputs") == 0    ? w->n_inputs
                 : strcmp(what, "lacks") == 0     ? w->lacks_channel
                 : strcmp(what, "vain") == 0      ? w->in_vain
                 : strcmp(what, "forgotten") == 0 ? w->forgotten
                 : strcmp(what, "failed") == 0    ? w->link_failed
                 : strcmp(what, "broken") == 0    ? w->stream_failed
                 : strcmp(what, "pacing") == 0    ? w->pacing
                                                  : 99);
}

static void begin(struct play *p, enum node_kind kind) {
    *p = (struct play){.m.own = {.kind = kind,
                                 .capture = MIRROR_NONE,
                                 .source = MIRROR_NONE,
                                 .name = kind == NODE_SPEAKER ? "enhanced_speaker" : "enhanced_mic"},
                       .m.choices = json_object()};
}

static void end(struct play *p) {
    mirror_clear(&p->m);
    json_decref(p->m.choices);
}

static void play_line(struct play *p, const char *line, const char *title) {
    char text[512], found[512], *words[MOST_WORDS];
    snprintf(text, sizeof text, "%s", line);
    const unsigned n = split(text, words);
    if (strcmp(words[0], "=") != 0) {
        play_event(p, words);
        return;
    }
    reconcile(&p->m, &p->w);
    for (unsigned i = 1; i + 1 < n; i += 2) {
        describe(p, words[i], found);
        ck_assert_msg(strcmp(found, words[i + 1]) == 0, "%s: after \"%s\" %s is %s", title, line, words[i], found);
    }
}

START_TEST(scripted) {
    struct play p;
    begin(&p, scripts[_i].kind);
    for (unsigned i = 0; i < MOST_LINES && scripts[_i].lines[i]; i++)
        play_line(&p, scripts[_i].lines[i], scripts[_i].title);
    end(&p);
    ck_assert_uint_eq(p.m.n_nodes + p.m.n_links + p.m.n_ports + p.m.n_targets + p.m.n_metadata, 0);
}
END_TEST

/* ---- any order --------------------------------------------------------------------------------------------------- */

/* In whatever order the events arrive, and however calls divide them, the final wishes are the same, and each noted
 * recorder is brought back once. */
/* clang-format off */
static const char *const unordered[] = {
    "node 10 Stream/Input/Audio capture 100", "node 11 Audio/Source enhanced_mic 101", "node 30 Audio/Source usb 130",
    "node 31 Audio/Source built_in 131", "node 20 Audio/Sink out 120", "port 60 30 0 FL", "port 61 30 1 FR",
    "port 62 31 0 MONO", "link 50 30 10", "link 51 11 40", "link 52 11 41", "node 40 Stream/Input/Audio rec 7",
    "node 41 Stream/Input/Audio other 8", "node 42 Stream/Input/Audio noted 9", "node 43 Stream/Input/Audio moved 14",
    "own 10 11", "choose usb FR", "metadata 5",
};
/* clang-format on */
/* clang-format off */
static const char *const unordered_metadata[] = {
    "set 0 default.audio.source {\"name\":\"built_in\"}", "owner 43 14", "set 43 target.object 131", "owner 41 8",
    "set 41 target.object 101", "owner 42 2", "set 42 target.object 131", "owner 42 9",
};
/* clang-format on */

static uint32_t state;
static unsigned draw(unsigned n) {
    state = state * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)(state >> 8) * n >> 24);
}

START_TEST(any_order_leads_to_the_same_result) {
    enum { N = sizeof unordered / sizeof *unordered, M = sizeof unordered_metadata / sizeof *unordered_metadata };
    state = seed_of_run(1);
    for (unsigned round = 0; round < 2000; round++) {
        const char *lines[N + M + 2];
        struct play p;
        unsigned n_asked = 0;
        begin(&p, NODE_MIC);
        play_line(&p, "noted 9 -", "any order");
        play_line(&p, "noted 14 -", "any order");
        memcpy(lines, unordered, sizeof unordered);
        for (unsigned i = N - 1; i > 0; i--) {
            const unsigned k = draw(i + 1);
            const char *const line = lines[i];
            lines[i] = lines[k];
            lines[k] = line;
        }
        lines[N] = "complete";
        for (unsigned i = 0, k = 0; i <= N || k <= M;) { /* two connections, each in its order */
            const bool metadata = i > N || (k <= M && draw(2));
            const char *const line = !metadata ? lines[i++] : k < M ? unordered_metadata[k++] : (k++, "told");
            play_line(&p, line, "any order");
            if (draw(3) == 0) {
                reconcile(&p.m, &p.w);
                n_asked += p.w.n_targets;
            }
        }
        reconcile(&p.m, &p.w);
        n_asked += p.w.n_targets;
        ck_assert_uint_eq(n_asked, 1);
        ck_assert_uint_eq(p.m.recalled, 101);
        play_line(&p,
                  "= microphone 30 target usb channel FR lacks 0 consumers 2 recorders 2 capture 1 quiet 0 "
                  "pacing 1 metadata 5 sets -",
                  "any order");
        ck_assert_uint_eq(p.m.noted.n, 3);
        end(&p);
    }
}
END_TEST

/* There are more recorders than one call can release. */
START_TEST(many_are_released_in_turn) {
    enum { MANY = 2 * RECALL_STREAMS + 5 };
    struct play p;
    unsigned n = 0, calls = 0;
    begin(&p, NODE_MIC);
    play_line(&p, "set 0 default.audio.source {\"name\":\"enhanced_mic\"}", "many");
    for (unsigned i = 0; i < MANY; i++)
        mirror_property(&p.m, 1000 + i, "target.node", "-1");
    play_line(&p, "set 0 default.audio.source {\"name\":\"mic\"}", "many");
    do {
        reconcile(&p.m, &p.w);
        n += p.w.n_targets;
    } while (p.w.n_targets && ++calls < 10);
    ck_assert_uint_eq(n, MANY);
    end(&p);
}
END_TEST

/* No recorder is left between the two changes that move it again, and none is half released. */
START_TEST(many_are_moved_again_in_turn) {
    enum { MANY = RECALL_STREAMS + 7 };
    struct play p;
    char line[64];
    unsigned n[2] = {0}, calls = 0;
    begin(&p, NODE_MIC);
    play_line(&p, "own 10 11", "anew");
    play_line(&p, "node 11 Audio/Source enhanced_mic 101", "anew");
    play_line(&p, "complete", "anew");
    play_line(&p, "told", "anew");
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "node %u Stream/Input/Audio rec", 1000 + i);
        play_line(&p, line, "anew");
        snprintf(line, sizeof line, "listens %u", 1000 + i);
        play_line(&p, line, "anew");
    }
    play_line(&p, "app rec on", "anew");
    do
        reconcile(&p.m, &p.w);
    while (p.w.more);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "set %u target.object 101", 1000 + i);
        play_line(&p, line, "anew");
    }
    play_line(&p, "= sets - vain 1", "anew");
    play_line(&p, "anew", "anew");
    do {
        reconcile(&p.m, &p.w);
        for (unsigned i = 0; i < p.w.n_targets; i++) {
            const bool second = p.w.targets[i].serial == 101;
            ck_assert(second == (i % 2 == 1));
            n[second]++;
        }
    } while (p.w.more && ++calls < 10);
    ck_assert_uint_eq(n[0], MANY);
    ck_assert_uint_eq(n[1], MANY);
    play_line(&p, "app rec auto", "anew");
    n[0] = 0;
    do {
        reconcile(&p.m, &p.w);
        n[0] += p.w.n_targets;
    } while (p.w.more && ++calls < 20);
    ck_assert_uint_eq(n[0], 2 * MANY);
    end(&p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reconcile");
    TCase *tcase = tcase_create("reconcile");
    tcase_set_timeout(tcase, 60); /* 2000 orders under a sanitizer, on a busy machine */
    tcase_add_loop_test(tcase, scripted, 0, sizeof scripts / sizeof *scripts);
    tcase_add_test(tcase, any_order_leads_to_the_same_result);
    tcase_add_test(tcase, many_are_released_in_turn);
    tcase_add_test(tcase, many_are_moved_again_in_turn);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
