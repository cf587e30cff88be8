# Tests that run what is installed: the tool, the window, the library and the plugins in other programs.

if HAVE_CHECK
check_PROGRAMS += test-files test-recordings
test_files_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(FLAC_CFLAGS) $(JANSSON_CFLAGS) $(SNDFILE_CFLAGS)
test_files_LDADD = $(CHECK_LIBS) $(FLAC_LIBS) $(JANSSON_LIBS) $(SNDFILE_LIBS)
test_files_SOURCES = %reldir%/test_files.c
test_recordings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(SNDFILE_CFLAGS)
test_recordings_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS) $(SNDFILE_LIBS)
test_recordings_SOURCES = %reldir%/test_recordings.c src/base/file.c src/tool/container.c src/tool/sound_file.c
endif
PROGRAM_TESTS += \
	%reldir%/test_embedding %reldir%/test_hosts %reldir%/test_install %reldir%/test_loudness %reldir%/test_measure \
	%reldir%/test_tool
if DAEMON
PROGRAM_TESTS += \
	%reldir%/test_doctor %reldir%/test_readme %reldir%/test_stock_desktop %reldir%/test_systemd %reldir%/test_try \
	%reldir%/test_window
endif
