noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
	%reldir%/beside.c %reldir%/busfault.c %reldir%/err.c %reldir%/errands.c %reldir%/file.c %reldir%/memory.c \
	%reldir%/rttime.c %reldir%/state.c %reldir%/text.c
