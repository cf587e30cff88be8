noinst_LIBRARIES += libcontrol.a
libcontrol_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libcontrol_a_SOURCES = %reldir%/client.c %reldir%/names.c %reldir%/place.c %reldir%/presets.c %reldir%/server.c \
	%reldir%/values.c
