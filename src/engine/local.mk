noinst_LTLIBRARIES += libengine.la
libengine_la_CPPFLAGS = $(AM_CPPFLAGS) -DMODULEDIR='"$(pkglibdir)"'
libengine_la_SOURCES = \
	%reldir%/choose.c %reldir%/engine.c %reldir%/engine_cpu.c %reldir%/engine_cuda.c %reldir%/engine_null.c \
	%reldir%/team.c %reldir%/level.c %reldir%/measure.c %reldir%/voice.c
