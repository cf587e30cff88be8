LIVE_SOURCES = \
	%reldir%/delay.c %reldir%/pump.c %reldir%/reader.c %reldir%/reduction.c %reldir%/slots.c %reldir%/times.c \
	%reldir%/worker.c
if DAEMON
noinst_LIBRARIES += liblive.a
liblive_a_SOURCES = $(LIVE_SOURCES) %reldir%/canceller.c %reldir%/rt.c
endif
