# Fuzz targets: as tests they replay the inputs that are kept; --enable-fuzzing makes them look for others.

FUZZERS = fuzz-files fuzz-model fuzz-pump
if DAEMON
FUZZERS += fuzz-control fuzz-settings
endif
FUZZ_SOURCES = %reldir%/fuzz.c
if FUZZING
noinst_PROGRAMS += $(FUZZERS)
else
check_PROGRAMS += $(FUZZERS)
FUZZ_SOURCES += %reldir%/replay.c
endif
FUZZ_LINK = $(AM_LDFLAGS) $(FUZZER_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup
CORPUS = -DCORPUS='"$(abs_srcdir)/%reldir%/corpus
fuzz_control_CPPFLAGS = $(AM_CPPFLAGS) $(CORPUS)/control"' -DSYSCONFDIR='"/etc"'
fuzz_control_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS)
fuzz_control_LDFLAGS = $(FUZZ_LINK)
fuzz_control_LDADD = $(JANSSON_LIBS) $(LIBCONFIG_LIBS)
fuzz_control_SOURCES = $(FUZZ_SOURCES) %reldir%/control.c src/base/err.c src/base/file.c src/base/state.c \
	src/base/text.c src/control/client.c src/control/names.c src/control/place.c src/control/presets.c \
	src/control/server.c src/control/values.c src/daemon/conf.c src/daemon/settings.c src/graph/channel.c
fuzz_files_CPPFLAGS = $(AM_CPPFLAGS) $(CORPUS)/files"' $(FIXTURES)
fuzz_files_CFLAGS = $(AM_CFLAGS) $(FLAC_CFLAGS) $(JANSSON_CFLAGS) $(SNDFILE_CFLAGS) $(SOXR_CFLAGS)
fuzz_files_LDFLAGS = $(FUZZ_LINK) -Wl,--wrap=model_load,--wrap=model_free
fuzz_files_LDADD = $(PRIMEKNET_LIBS) $(FLAC_LIBS) $(SNDFILE_LIBS) $(SOXR_LIBS)
fuzz_files_SOURCES = $(FUZZ_SOURCES) %reldir%/files.c src/base/text.c src/control/presets.c src/control/names.c \
	src/control/values.c src/tool/batch.c src/tool/container.c src/tool/enhance.c src/tool/limiter.c \
	src/tool/sound_file.c src/tool/tags.c
fuzz_model_CPPFLAGS = $(AM_CPPFLAGS) $(CORPUS)/model"'
fuzz_model_CFLAGS = $(AM_CFLAGS)
fuzz_model_LDFLAGS = $(FUZZ_LINK)
fuzz_model_LDADD = libprint.la $(PRIMEKNET_LIBS)
fuzz_model_SOURCES = $(FUZZ_SOURCES) %reldir%/model.c
fuzz_pump_CPPFLAGS = $(AM_CPPFLAGS) $(CORPUS)/pump"'
fuzz_pump_CFLAGS = $(AM_CFLAGS)
fuzz_pump_LDFLAGS = $(FUZZ_LINK) \
	-Wl,--wrap=clock_gettime,--wrap=nanosleep,--wrap=pthread_setname_np,--wrap=pthread_sigmask,--wrap=syscall
fuzz_pump_SOURCES = $(FUZZ_SOURCES) %reldir%/pump.c src/base/memory.c src/engine/level.c src/engine/voice.c \
	$(LIVE_SOURCES)
fuzz_settings_CPPFLAGS = $(AM_CPPFLAGS) $(CORPUS)/settings"' -DSYSCONFDIR='"/etc"'
fuzz_settings_CFLAGS = $(AM_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS)
fuzz_settings_LDFLAGS = $(FUZZ_LINK)
fuzz_settings_LDADD = $(LIBCONFIG_LIBS)
fuzz_settings_SOURCES = $(FUZZ_SOURCES) %reldir%/settings.c src/base/err.c src/base/file.c src/base/state.c \
	src/base/text.c src/control/names.c src/control/presets.c src/control/values.c \
	src/daemon/conf.c src/daemon/settings.c src/graph/channel.c
