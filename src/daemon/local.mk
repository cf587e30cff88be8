# The daemon, its settings file, its unit and manuals.

if DAEMON
noinst_LIBRARIES += libdaemon.a
libdaemon_a_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(sysconfdir)"'
libdaemon_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS) $(SYSTEMD_CFLAGS)
libdaemon_a_SOURCES = \
	%reldir%/carry.c %reldir%/changes.c %reldir%/commands.c %reldir%/conf.c %reldir%/engines.c %reldir%/gpu.c \
	%reldir%/loader.c %reldir%/log.c %reldir%/nodes.c %reldir%/notify.c %reldir%/power.c %reldir%/report.c \
	%reldir%/say.c %reldir%/service.c %reldir%/settings.c
bin_PROGRAMS += primeknetd
primeknetd_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(sysconfdir)"'
primeknetd_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS) $(SYSTEMD_CFLAGS)
primeknetd_LDADD = libdaemon.a libcontrol.a libprint.la $(LIVE_LIBS) $(PRIMEKNET_LIBS) $(LIBCONFIG_LIBS) $(SYSTEMD_LIBS)
primeknetd_SOURCES = %reldir%/main.c %reldir%/options.c

# The settings are an administrator's once they are there: installing again and uninstalling leave what was changed.
configdir = $(sysconfdir)/primeknet
all-local: etc/primeknet.conf
install-data-local:
	$(MKDIR_P) $(DESTDIR)$(configdir)
	test -e $(DESTDIR)$(configdir)/primeknet.conf || \
	    $(INSTALL_DATA) etc/primeknet.conf $(DESTDIR)$(configdir)/primeknet.conf
uninstall-local:
	if cmp -s etc/primeknet.conf $(DESTDIR)$(configdir)/primeknet.conf; then \
	    rm -f $(DESTDIR)$(configdir)/primeknet.conf; fi
systemduserunit_DATA = systemd/primeknet.service
man_MANS += man/primeknetd.1 man/primeknet.conf.5
endif

# Directories that configure leaves to make.
SUBSTITUTED = etc/primeknet.conf man/primeknet.conf.5 man/primeknetd.1 systemd/primeknet.service
EXTRA_DIST += $(SUBSTITUTED:=.in)
CLEANFILES += $(SUBSTITUTED) defaults.sed
$(SUBSTITUTED): %: %.in Makefile defaults.sed
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e 's|@bindir[@]|$(bindir)|g' -e 's|@sysconfdir[@]|$(sysconfdir)|g' \
	    -f defaults.sed $< > $@
# The settings' defaults, as the file and the manual show them: a word for -INFINITY, numbers without ".0" or quotes.
defaults.sed: src/control/settings.def
	$(AM_V_GEN)sed -nE -e 's/^NUMBER\((\w+), -INFINITY, [^"]*("\w+"),.*/s|@default_\1@|\2|/p' \
	    -e 's/^NUMBER\((\w+), ([0-9.-]+),.*/s|@default_\1@|\2|/p' \
	    -e 's/^TEXT\((\w+), [0-9]+, ("[^"]*"),.*/s|@default_\1@|\2|/p' \
	    -e 's/^SWITCH\((\w+), (\w+)\).*/s|@default_\1@|\2|/p' $< | \
	    sed -E -e 's/\.0\|$$/|/' -e 's/"([0-9]+)"/\1/' > $@
