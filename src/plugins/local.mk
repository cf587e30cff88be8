# The plugins: the library in other programs.

ladspadir = $(libdir)/ladspa
lv2dir = $(libdir)/lv2/primeknet.lv2
if PLUGINS
# nodelete: a thread may still be loading a model when the host unloads the plugin.
PLUGIN_LDFLAGS = -module -avoid-version -no-undefined -Wl,-z,nodelete
ladspa_LTLIBRARIES = ladspa/primeknet.la
ladspa_primeknet_la_CFLAGS = $(AM_CFLAGS) $(PLUGINS_CFLAGS)
ladspa_primeknet_la_LDFLAGS = $(PLUGIN_LDFLAGS) -export-symbols-regex '^ladspa_descriptor$$'
ladspa_primeknet_la_LIBADD = libprimeknet.la $(PLUGINS_LIBS)
ladspa_primeknet_la_SOURCES = %reldir%/core.c %reldir%/ladspa.c
lv2_LTLIBRARIES = lv2/primeknet.la
lv2_primeknet_la_CFLAGS = $(AM_CFLAGS) $(PLUGINS_CFLAGS)
lv2_primeknet_la_LDFLAGS = $(PLUGIN_LDFLAGS) -export-symbols-regex '^lv2_descriptor$$'
lv2_primeknet_la_LIBADD = libprimeknet.la $(PLUGINS_LIBS)
lv2_primeknet_la_SOURCES = %reldir%/core.c %reldir%/lv2.c
lv2_DATA = %reldir%/primeknet.lv2/manifest.ttl %reldir%/primeknet.lv2/primeknet.ttl
install-ladspaLTLIBRARIES install-lv2LTLIBRARIES: install-libLTLIBRARIES # which they are linked with again
endif
