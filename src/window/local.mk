GETTEXT = -DGETTEXT_PACKAGE='"primeknet-gtk"' -DLOCALEDIR='"$(localedir)"'
EXTRA_DIST += man/primeknet-gtk.1 po/de.po po/fr.po
if GTK
bin_PROGRAMS += primeknet-gtk
primeknet_gtk_CPPFLAGS = $(AM_CPPFLAGS) $(GETTEXT) \
	-DAPP_ID='"org.primeknet.PrimeKnet"' -DG_LOG_DOMAIN='"primeknet-gtk"' \
	-DADW_VERSION_MIN_REQUIRED=ADW_VERSION_1_2 -DGDK_VERSION_MIN_REQUIRED=GDK_VERSION_4_8
primeknet_gtk_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(GTK_CFLAGS) -Wno-overlength-strings
primeknet_gtk_LDADD = libcontrol.a libbase.la $(JANSSON_LIBS) $(GTK_LIBS)
primeknet_gtk_SOURCES = \
	%reldir%/advanced.c %reldir%/applications.c %reldir%/command.c %reldir%/findings.c %reldir%/link.c \
	%reldir%/main.c %reldir%/microphone.c %reldir%/problem.c %reldir%/setting.c %reldir%/shortcut.c \
	%reldir%/sound.c %reldir%/spectrum.c %reldir%/state.c %reldir%/system.c %reldir%/tray.c %reldir%/trial.c \
	%reldir%/verdict.c %reldir%/window.c
nodist_primeknet_gtk_SOURCES = %reldir%/resources.c
CLEANFILES += %reldir%/resources.c
%reldir%/resources.c: %reldir%/resources.xml %reldir%/advanced.ui %reldir%/findings.ui %reldir%/microphone.ui \
    %reldir%/shortcuts.ui %reldir%/sound.ui %reldir%/style.css %reldir%/system.ui %reldir%/trial.ui %reldir%/window.ui
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(GLIB_COMPILE_RESOURCES) --sourcedir=$(srcdir)/%reldir% --generate-source \
	    --target=$@ $<
appdir = $(datadir)/applications
dist_app_DATA = desktop/org.primeknet.PrimeKnet.desktop
metainfodir = $(datadir)/metainfo
dist_metainfo_DATA = desktop/org.primeknet.PrimeKnet.metainfo.xml
icondir = $(datadir)/icons/hicolor/scalable/apps
dist_icon_DATA = desktop/org.primeknet.PrimeKnet.svg
dist_man_MANS += man/primeknet-gtk.1

# What the window shows in other languages.
dedir = $(localedir)/de/LC_MESSAGES
de_DATA = po/de/primeknet-gtk.mo
frdir = $(localedir)/fr/LC_MESSAGES
fr_DATA = po/fr/primeknet-gtk.mo
CLEANFILES += $(de_DATA) $(fr_DATA)
po/%/primeknet-gtk.mo: po/%.po
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(MSGFMT) --check -o $@ $<
endif
# Finds the words anew, and leaves new ones to translate in po/*.po.
.PHONY: update-po
update-po:
	cd $(srcdir) && scripts/messages > po/messages.pot && \
	    for po in po/*.po; do msgmerge --quiet --update --backup=none $$po po/messages.pot || exit 1; done && rm \
	    po/messages.pot
