# Tests in a private PipeWire: of the live path in the test's own process, and of the daemon.

if DAEMON
if HAVE_CHECK
check_PROGRAMS += test-live
test_live_CPPFLAGS = $(AM_CPPFLAGS) -DSRCDIR='"$(abs_srcdir)"'
test_live_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(PIPEWIRE_CFLAGS)
test_live_LDADD = $(LIVE_LIBS) $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_live_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=pump_process,--wrap=engine_process,--wrap=engine_tail \
	-Wl,--wrap=engine_reset,--wrap=engine_pause \
	-Wl,--wrap=pw_stream_add_listener,--wrap=pw_stream_new,--wrap=pw_context_connect
test_live_SOURCES = tests/support/manager.c tests/support/probe.c tests/support/rt_guard.c %reldir%/test_live.c
endif
PROGRAM_TESTS += \
	%reldir%/test_apps %reldir%/test_commands %reldir%/test_daemon %reldir%/test_desktop %reldir%/test_echo \
	%reldir%/test_gpu %reldir%/test_heavy %reldir%/test_microphones %reldir%/test_privacy %reldir%/test_protocol \
	%reldir%/test_recovery %reldir%/test_silence %reldir%/test_talkers %reldir%/test_transparent %reldir%/test_voice
endif
