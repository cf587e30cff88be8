noinst_LTLIBRARIES += libmodel.la
libmodel_la_CPPFLAGS = $(AM_CPPFLAGS) -DMODELDIR='"$(pkgdatadir)/models"'
libmodel_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libmodel_la_SOURCES = %reldir%/access.c %reldir%/model.c %reldir%/pool.c %reldir%/safetensors.c \
	%reldir%/schema.c
