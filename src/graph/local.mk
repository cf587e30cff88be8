if DAEMON
noinst_LIBRARIES += libgraph.a
libgraph_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(PIPEWIRE_CFLAGS)
libgraph_a_SOURCES = \
	%reldir%/channel.c %reldir%/choices.c %reldir%/echo.c %reldir%/guard.c %reldir%/microphone.c %reldir%/mirror.c \
	%reldir%/node.c %reldir%/params.c %reldir%/recall.c %reldir%/reconcile.c %reldir%/registry.c %reldir%/stall.c \
	%reldir%/streams.c %reldir%/survey.c %reldir%/tell.c %reldir%/threads.c
LIVE_LIBS = libgraph.a liblive.a $(PIPEWIRE_LIBS)
endif
