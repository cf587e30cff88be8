noinst_LTLIBRARIES += libprint.la
libprint_la_SOURCES = %reldir%/encoder.c %reldir%/features.c %reldir%/print.c
