# The library for other programs; the tool has its own copy of it.

noinst_LTLIBRARIES += liblib.la
liblib_la_SOURCES = %reldir%/primeknet.c
lib_LTLIBRARIES += libprimeknet.la
libprimeknet_la_SOURCES = %reldir%/hosted.c
libprimeknet_la_LIBADD = $(PRIMEKNET_LIBS)
# Where functions are added to primeknet.h, the first and third number go up by one.
libprimeknet_la_LDFLAGS = -version-info 0:0:0 -no-undefined -Wl,--version-script=$(srcdir)/%reldir%/primeknet.map
EXTRA_libprimeknet_la_DEPENDENCIES = $(srcdir)/%reldir%/primeknet.map
include_HEADERS = %reldir%/primeknet.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %reldir%/primeknet.pc
