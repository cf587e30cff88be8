noinst_LTLIBRARIES += libprint.la
libprint_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libprint_la_SOURCES = %reldir%/encoder.c %reldir%/enrolment.c %reldir%/features.c %reldir%/print.c
