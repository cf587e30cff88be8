/* The window's texts for a status: every state and every problem, in every wording. */
#include "config.h"

#include "control/protocol.h"
#include "window/problem.h"
#include "window/state.h"
#include "window/verdict.h"
#include "tests/support/run.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MIC "\"microphone\":{\"name\":\"mic\",\"description\":\"USB Mic\"}"
#define SETTINGS "\"settings\":{\"strength\":1,\"microphone\":\"default\",\"file\":\"/home/me/a.conf\"}"
#define USB "\"settings\":{\"strength\":1,\"microphone\":\"usb\"}"
#define FIREFOX "\"recorders\":[\"Firefox\"],\"level_in_db\":-20.0"
#define BARE "\"applications\":[{\"name\":\"Zoom's\",\"choice\":null,\"from\":[\"USB Mic\"],\"enhanced\":false}]"
#define REFUSED "\"problems\":[{\"kind\":\"file\",\"text\":\"a.conf:3: no\",\"code\":\"new\",\"line\":3}],"
#define GONE "primeknetd is not running; systemctl --user start primeknet starts it"
#define ROOT "the daemon of me is not root's"

struct should {
    const char *status; /* NULL: none */
    struct state_beside beside;
    enum look look;
    const char *line, *detail, *advice, *button;
    enum remedy remedy;
    const char *argument;
};

/* clang-format off */
static const struct should all[] = {
    /* no daemon */
    {NULL, {GONE, TRUE, 0, FALSE}, LOOK_RESTING, "Enhanced Mic Is Off", "The service does not run.", NULL, NULL,
     REMEDY_NONE, NULL},
    {NULL, {"primeknetd has ended", TRUE, 0, FALSE}, LOOK_RESTING, "Enhanced Mic Is Off", "The service does not run.",
     NULL, NULL, REMEDY_NONE, NULL},
    {NULL, {GONE, FALSE, 0, FALSE}, LOOK_RESTING, "A Clean Microphone",
     "PrimeKnet removes noise from your microphone, on this computer and for every application. Start it once; it then "
     "runs after every login.", NULL, NULL, REMEDY_NONE, NULL},
    {NULL, {ROOT, FALSE, 0, FALSE}, LOOK_RESTING, "Enhanced Mic Is Off", ROOT, NULL, NULL, REMEDY_NONE, NULL},
    /* what is missing */
    {"\"state\":\"no PipeWire\"," SETTINGS, {0}, LOOK_BROKEN, "Waiting for PipeWire", "",
     "The computer's sound service does not answer.", "Find Out Why", REMEDY_CHECK, NULL},
    {"\"state\":\"no microphone\"," SETTINGS, {0}, LOOK_BROKEN, "No microphone", "",
     "Plug one in or switch it on; laptops may have a key for it.", "Find Out Why", REMEDY_CHECK, NULL},
    {"\"state\":\"no microphone\",\"microphones\":[{\"name\":\"b\"}]," USB, {0}, LOOK_BROKEN, "No microphone", "",
     "usb is missing. It is used again as soon as it is there.", "Use Another", REMEDY_COMMAND,
     "primeknet use default --save"},
    {"\"state\":\"no microphone\",\"microphones\":[]," USB, {0}, LOOK_BROKEN, "No microphone", "",
     "Plug one in or switch it on; laptops may have a key for it.", "Find Out Why", REMEDY_CHECK, NULL},
    /* muted, also while nobody records and before all that follows */
    {"\"state\":\"idle\",\"bypass\":true,\"silenced\":{\"id\":42,\"description\":\"USB Mic\",\"turned_down\":false},"
     MIC "," SETTINGS, {0}, LOOK_WARNING, "Muted", "", "USB Mic is muted, so nobody hears you.", "Unmute",
     REMEDY_COMMAND, "wpctl set-mute 42 0"},
    {"\"state\":\"enhancing\",\"silenced\":{\"id\":7,\"description\":\"Enhanced Mic\",\"turned_down\":true}," FIREFOX
     "," SETTINGS, {0}, LOOK_WARNING, "Turned down to nothing", "",
     "The volume of Enhanced Mic is zero, so nobody hears you.", "Turn Up", REMEDY_COMMAND, "wpctl set-volume 7 1.0"},
    /* no sound, or not what it should be */
    {"\"state\":\"engine lost\"," FIREFOX "," SETTINGS, {0}, LOOK_BROKEN,
     "Noise is not removed: the engine has failed", "", "Applications get the unprocessed microphone.", "Restart",
     REMEDY_COMMAND, "systemctl --user restart primeknet"},
    {"\"state\":\"engine lost\"," FIREFOX "," SETTINGS, {.no_systemd = TRUE}, LOOK_BROKEN,
     "Noise is not removed: the engine has failed", "", "Applications get the unprocessed microphone.", "Restart",
     REMEDY_COMMAND, "primeknet setup"},
    {"\"state\":\"waiting for sound\",\"recorders\":[\"Firefox\"]," MIC "," SETTINGS, {0}, LOOK_WARNING,
     "No sound from USB Mic", "", "Unplug it and plug it in again, or choose another.", "Find Out Why", REMEDY_CHECK,
     NULL},
    {"\"state\":\"enhancing\",\"recorders\":[\"Firefox\"],\"level_in_db\":null," MIC "," SETTINGS,
     {NULL, TRUE, 3, FALSE}, LOOK_WARNING, "No sound from USB Mic", "",
     "It sends nothing but silence. Look for a switch on it, or choose another.", "Find Out Why", REMEDY_CHECK, NULL},
    {"\"state\":\"enhancing\",\"recorders\":[\"Firefox\"],\"level_in_db\":null," MIC "," SETTINGS,
     {NULL, TRUE, 2.5, FALSE}, LOOK_WORKING, "Working: Firefox hears you without noise", "", NULL, NULL, REMEDY_NONE,
     NULL},
    {"\"state\":\"waiting for sound\",\"recorders\":[\"Firefox\"],\"microphone\":null," SETTINGS, {0}, LOOK_WARNING,
     "No sound from the microphone", "", "Unplug it and plug it in again, or choose another.", "Find Out Why",
     REMEDY_CHECK, NULL},
    /* settings */
    {"\"state\":\"enhancing\"," REFUSED "" FIREFOX "," SETTINGS, {0}, LOOK_WARNING,
     "The settings file has an error", "Until it is corrected, other settings are in force.", "a.conf:3: no",
     "Open File", REMEDY_OPEN, "/home/me/a.conf"},
    {"\"state\":\"idle\"," REFUSED "\"settings\":{\"strength\":1,\"file\":\"\"}", {0}, LOOK_WARNING,
     "The settings file has an error", "Until it is corrected, other settings are in force.", "a.conf:3: no", NULL,
     REMEDY_NONE, ""},
    {"\"state\":\"bypassed\",\"bypass\":true," FIREFOX "," SETTINGS, {0}, LOOK_WARNING, "Noise is not removed", "",
     "Noise removal is switched off, so applications get the unprocessed microphone.", "Turn On", REMEDY_COMMAND,
     "primeknet bypass off"},
    {"\"state\":\"enhancing\"," FIREFOX ",\"settings\":{\"strength\":0}", {0}, LOOK_WARNING, "Noise is not removed", "",
     "The strength is 0, so applications get the unprocessed microphone.", "Turn On", REMEDY_COMMAND,
     "primeknet set strength 1 --save"},
    /* nobody records */
    {"\"state\":\"idle\",\"default\":false," MIC "," SETTINGS, {0}, LOOK_RESTING, "Nobody is listening",
     "Ready: choose Enhanced Mic in your application.", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"idle\",\"default\":true," MIC "," SETTINGS, {0}, LOOK_RESTING, "Nobody is listening",
     "Ready: applications use Enhanced Mic by default.", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"idle\",\"measuring\":true," MIC "," SETTINGS, {0}, LOOK_RESTING, "Nobody is listening",
     "Ready, and measuring this computer.", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"idle\"," BARE "," MIC "," SETTINGS, {0}, LOOK_WARNING, "Zoom's hears you with noise", "",
     "Zoom's records the unprocessed microphone, with all its noise.", "Remove Noise", REMEDY_COMMAND,
     "primeknet app 'Zoom'\\''s' on"},
    /* chosen, away, or this window's own */
    {"\"state\":\"idle\",\"applications\":[{\"name\":\"A\",\"choice\":\"off\",\"from\":[\"USB Mic\"]},"
     "{\"name\":\"B\",\"choice\":\"on\",\"from\":[]},{\"name\":\"PrimeKnet\",\"from\":[\"USB Mic\"]}]," SETTINGS, {0},
     LOOK_RESTING, "Nobody is listening", "Ready: choose Enhanced Mic in your application.", NULL, NULL, REMEDY_NONE,
     NULL},
    /* somebody does */
    {"\"state\":\"enhancing\",\"clips\":true," FIREFOX "," SETTINGS, {0}, LOOK_WARNING,
     "Too loud: your voice is distorted", "",
     "Turn the microphone down in the sound settings, or move away from it.", NULL, REMEDY_NONE, NULL},
    {"\"state\":\"enhancing\",\"clips\":false," FIREFOX "," SETTINGS, {0}, LOOK_WORKING,
     "Working: Firefox hears you without noise", "", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"enhancing\",\"recorders\":[\"Firefox\",\"PrimeKnet\",\"OBS\"],\"level_in_db\":-9," SETTINGS, {0},
     LOOK_WORKING, "Working: Firefox, OBS hear you without noise", "", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"enhancing\",\"recorders\":[\"PrimeKnet\"],\"level_in_db\":-9," SETTINGS, {0}, LOOK_WORKING,
     "Working: only this window listens", "", NULL, NULL, REMEDY_NONE, NULL},
    {"\"state\":\"enhancing\"," FIREFOX "," BARE "," SETTINGS, {0}, LOOK_WORKING,
     "Working: Firefox hears you without noise", "", "Zoom's records the unprocessed microphone, with all its noise.",
     "Remove Noise", REMEDY_COMMAND, "primeknet app 'Zoom'\\''s' on"},
    /* garbage */
    {"\"state\":7,\"recorders\":[5,null],\"applications\":{\"a\":1},\"silenced\":3,\"settings\":[],"
     "\"level_in_db\":\"x\"", {0}, LOOK_WARNING, "Noise is not removed", "",
     "The strength is 0, so applications get the unprocessed microphone.", "Turn On", REMEDY_COMMAND,
     "primeknet set strength 1 --save"},
};
/* clang-format on */

static json_t *parse(const char *members) {
    char *text = g_strdup_printf("{%s}", members);
    json_t *status = json_loads(text, 0, NULL);
    ck_assert_msg(status != NULL, "%s", text);
    g_free(text);
    return status;
}

START_TEST(states_are_reported) {
    const struct should *should = &all[_i];
    json_t *status = should->status ? parse(should->status) : NULL;
    struct state s;
    state_of(status, &should->beside, &s);
    ck_assert_str_eq(s.line, should->line);
    ck_assert_str_eq(s.detail, should->detail);
    ck_assert_pstr_eq(s.advice, should->advice);
    ck_assert_pstr_eq(s.button, should->button);
    ck_assert_pstr_eq(s.argument, should->argument);
    ck_assert_int_eq(s.look, should->look);
    ck_assert_int_eq(s.remedy, should->remedy);
    ck_assert(g_str_has_suffix(s.icon, "-symbolic"));
    state_clear(&s);
    ck_assert(!s.line && !s.argument);
    json_decref(status);
}
END_TEST

static const struct {
    const char *statuses[3], *says;
} verdicts[] = {
    {{NULL}, "Compare how you sound."},
    {{"\"recorders\":[]"}, "Compare how you sound."},
    {{"\"level_in_db\":null", "\"level_in_db\":-95"}, "No sound came from the microphone."},
    {{"\"level_in_db\":-3,\"clips\":true,\"voice_active\":true", "\"level_in_db\":-30,\"clips\":false"},
     "You were too loud, which distorts. Turn the microphone down."},
    {{"\"level_in_db\":-30,\"bypass\":true,\"voice_active\":null"}, "Both sound alike: noise removal is switched off."},
    {{"\"level_in_db\":-30,\"voice_active\":false"}, "No voice was heard. Speak while it records."},
    {{"\"level_in_db\":-30,\"voice_active\":true,\"noise_reduction_db\":9.6",
      "\"level_in_db\":-30,\"voice_active\":false,\"noise_reduction_db\":12.4"},
     "Your voice was heard, and the noise behind it lowered by 12 dB."},
    {{"\"level_in_db\":-30,\"voice_active\":true,\"noise_reduction_db\":0.3"},
     "Your voice was heard. There was hardly any noise."},
    {{"\"level_in_db\":-30,\"voice_active\":true,\"noise_reduction_db\":null"},
     "Your voice was heard. There was hardly any noise."},
};

static const struct {
    const char *problem, *says;
} problems[] = {
    {"\"code\":\"unknown_setting\",\"line\":2,\"word\":\"strenght\",\"meant\":\"strength\"",
     "Line 2: There is no setting \"strenght\"; did you mean strength?"},
    {"\"code\":\"unknown_setting\",\"line\":2,\"word\":\"a\"", "Line 2: There is no setting \"a\"."},
    {"\"code\":\"bad_value\",\"line\":3,\"setting\":\"strength\",\"allowed\":\"a number from 0 to 1\"",
     "Line 3: strength must be a number from 0 to 1."},
    {"\"code\":\"duplicate\",\"line\":9,\"setting\":\"model\"",
     "Line 9: An earlier line already contains this setting."},
    {"\"code\":\"bad_profile\",\"line\":4", "Line 4: The profiles are a list, ( { microphone = NAME; ... }, ... ). "
                                            "Each has one microphone, by its name, and may "
                                            "have strength, floor_db, low_cut_hz and model."},
    {"\"code\":\"too_many_profiles\",\"line\":4", "Line 4: There are too many profiles."},
    {"\"code\":\"bad_syntax\",\"line\":4",
     "Line 4: A setting has the form NAME = VALUE, with words and percentages in \"quotation marks\"."},
    {"\"code\":\"unended\",\"line\":4", "Line 4: A comment or a quoted text is not closed."},
    {"\"code\":\"bad_encoding\",\"line\":4", "Line 4: This is not plain UTF-8 text."},
    {"\"code\":\"unusable\",\"line\":4,\"setting\":\"model\",\"text\":\"/a:4: model: no such model\"",
     "Line 4: model cannot be used: no such model"},
    {"\"code\":\"unusable\",\"why\":\"no_model\",\"word\":\"huge\",\"line\":4,\"setting\":\"model\",\"text\":\"x\"",
     "Line 4: There is no model \"huge\"."},
    {"\"code\":\"unusable\",\"why\":\"bad_model\",\"word\":\"a.safetensors\",\"setting\":\"model\",\"error\":\"x\"",
     "The file of the model \"a.safetensors\" is damaged, or this version cannot read it."},
    {"\"code\":\"unusable\",\"why\":\"not_live\",\"word\":\"old\",\"setting\":\"model\",\"error\":\"x\"",
     "The model \"old\" is for files only."},
    {"\"code\":\"unusable\",\"why\":\"of_a_later_version\",\"setting\":\"model\",\"text\":\"model: later\"",
     "model cannot be used: later"},
    {"\"code\":\"unreadable\",\"text\":\"/a.conf: Permission denied\"",
     "It cannot be read: /a.conf: Permission denied"},
    {"\"code\":\"absent\",\"setting\":\"microphone\",\"name\":\"usb\"",
     "usb is missing. It is used again as soon as it is there."},
    {"\"code\":\"loop\",\"setting\":\"microphone\",\"name\":\"a\",\"node\":\"b\",\"instead\":\"c\"",
     "a carries the sound of b itself, which uses c instead."},
    {"\"code\":\"loop\",\"setting\":\"microphone\",\"name\":\"a\",\"node\":\"b\"",
     "a carries the sound of b itself, which has no other microphone."},
    {"\"code\":\"loop\",\"setting\":\"speaker\",\"name\":\"a\",\"node\":\"b\",\"instead\":\"c\"",
     "The sound of a comes back to b, which plays on c."},
    {"\"code\":\"loop\",\"setting\":\"speaker\",\"name\":\"a\",\"node\":\"b\"",
     "The sound of a comes back to b, which has no other output."},
    {"\"code\":\"no_channel\",\"setting\":\"channel\",\"name\":\"USB Mic\",\"word\":\"7\"",
     "USB Mic has no channel 7; all its channels are mixed."},
    {"\"code\":\"too_heavy\",\"setting\":\"model\",\"name\":\"large\",\"instead\":\"base\"",
     "large is too heavy for this computer now; base runs instead."},
    {"\"code\":\"on_battery\",\"text\":\"x\"", "The GPU is not used on battery power."},
    {"\"code\":\"gpu_asleep\",\"text\":\"x\"", "The GPU is asleep and is not woken."},
    {"\"code\":\"gpu_busy\",\"text\":\"x\"", "Another program keeps the GPU busy."},
    {"\"code\":\"gpu_failed\",\"text\":\"x\"", "The GPU failed. It is used again once no application records."},
    {"\"code\":\"no_microphone\",\"error\":\"there is no microphone\"", "There is no microphone."},
    {"\"code\":\"timeout\",\"error\":\"x\"", "The model takes too long to load, so nothing was changed."},
    {"\"code\":\"unusable\",\"setting\":\"model\",\"error\":\"model: large: no model of that name\"",
     "model cannot be used: large: no model of that name"},
    {"\"code\":\"not_saved\",\"error\":\"x\"", "This is in force now, but could not be saved: x"},
    {"\"code\":\"busy\",\"error\":\"x\"", "There are too many requests. Try again."},
    {"\"code\":\"no_gpu\",\"text\":\"engine cuda: of a later version\"", "engine cuda: of a later version"},
    {"\"code\":\"no_gpu\",\"why\":\"no_module\",\"text\":\"x\"",
     "The package primeknet-cuda, which runs models on a GPU, is not installed."},
    {"\"code\":\"no_gpu\",\"why\":\"no_device\",\"setting\":\"engine\",\"text\":\"x\"",
     "There is no such NVIDIA GPU, or its driver does not work."},
    {"\"code\":\"unusable\",\"why\":\"no_memory\",\"setting\":\"engine\",\"error\":\"x\"", "The GPU's memory is full."},
    {"\"code\":\"no_echo_cancel\",\"setting\":\"echo_cancel\",\"text\":\"x\"",
     "PipeWire's echo canceller cannot be loaded, so the echo stays."},
    {"\"code\":\"bad_value\",\"setting\":7,\"allowed\":[],\"line\":\"x\",\"text\":\"as it is\"", "as it is"},
    {"\"text\":{}", ""},
};

START_TEST(problems_are_reported) {
    json_t *problem = parse(problems[_i].problem);
    char *says = problem_tell(problem);
    ck_assert_str_eq(says, problems[_i].says);
    g_free(says);
    json_decref(problem);
}
END_TEST

START_TEST(problems_are_chosen) {
    json_t *status = parse(
        "\"problems\":[{\"kind\":\"file\",\"text\":\"a\"},{\"kind\":\"missing\",\"setting\":\"model\","
        "\"text\":\"b\"},{\"kind\":\"missing\",\"setting\":\"speaker\",\"text\":\"c\"},"
        "{\"kind\":\"missing\",\"setting\":\"model\",\"text\":\"d\"},7]");
    char *file = problem_tell_all(status, KIND_FILE, NULL), *model = problem_tell_all(status, KIND_MISSING, "model");
    ck_assert_str_eq(file, "a");
    ck_assert_str_eq(model, "b d");
    ck_assert_ptr_null(problem_tell_all(status, KIND_MISSING, "channel"));
    ck_assert_ptr_null(problem_tell_all(status, KIND_PROFILE, NULL));
    g_free(file);
    g_free(model);
    json_decref(status);
}
END_TEST

START_TEST(a_test_is_judged) {
    struct verdict v;
    verdict_begin(&v);
    for (int i = 0; i < 3 && verdicts[_i].statuses[i]; i++) {
        json_t *status = parse(verdicts[_i].statuses[i]);
        verdict_add(&v, status);
        json_decref(status);
    }
    char *says = verdict_tell(&v);
    ck_assert_str_eq(says, verdicts[_i].says);
    g_free(says);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("window");
    TCase *tc = tcase_create("state");
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, states_are_reported, 0, sizeof all / sizeof *all);
    tcase_add_loop_test(tc, problems_are_reported, 0, sizeof problems / sizeof *problems);
    tcase_add_test(tc, problems_are_chosen);
    tcase_add_loop_test(tc, a_test_is_judged, 0, sizeof verdicts / sizeof *verdicts);
    return run_suite(suite, CK_FORK);
}
