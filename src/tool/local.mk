noinst_LIBRARIES += libcommands.a
libcommands_a_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(sysconfdir)"' $(GETTEXT)
libcommands_a_CFLAGS = $(AM_CFLAGS) $(CAIRO_CFLAGS) $(FLAC_CFLAGS) $(JANSSON_CFLAGS) $(SNDFILE_CFLAGS) $(SOXR_CFLAGS)
libcommands_a_SOURCES = \
	%reldir%/batch.c %reldir%/bench.c %reldir%/commands.c %reldir%/complete.c %reldir%/container.c %reldir%/enhance.c \
	%reldir%/limiter.c %reldir%/listen.c %reldir%/sound.c %reldir%/sound_file.c %reldir%/status.c %reldir%/tags.c \
	%reldir%/lab/compare.c %reldir%/lab/mix.c %reldir%/lab/plot.c %reldir%/lab/score.c
bin_PROGRAMS += primeknet
primeknet_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
primeknet_LDADD = libcommands.a
primeknet_SOURCES = %reldir%/cli.c
if DAEMON
libcommands_a_CFLAGS += $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS) $(SYSTEMD_CFLAGS)
libcommands_a_SOURCES += \
	%reldir%/autostart.c %reldir%/default.c %reldir%/doctor.c %reldir%/doctor_machine.c %reldir%/portal.c \
	%reldir%/setup.c %reldir%/systemd.c
primeknet_LDADD += libdaemon.a libgraph.a $(LIBCONFIG_LIBS) $(PIPEWIRE_LIBS) $(SYSTEMD_LIBS)
endif
primeknet_LDADD += libcontrol.a libprint.la $(PRIMEKNET_LIBS) $(CAIRO_LIBS) $(FLAC_LIBS) $(SNDFILE_LIBS) $(SOXR_LIBS)
dist_man_MANS += man/primeknet.1
completionsdir = $(datadir)/bash-completion/completions
dist_completions_DATA = completions/primeknet
fishdir = $(datadir)/fish/vendor_completions.d
dist_fish_DATA = completions/primeknet.fish
zshdir = $(datadir)/zsh/site-functions
dist_zsh_DATA = completions/_primeknet
