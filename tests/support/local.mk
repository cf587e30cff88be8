# What stands in for others while the daemon is tested, and asks things of it.

if DAEMON
# The daemon with a source that can be frozen, or networks and a disk that can be made slow; a desktop that shows
# notifications, and one that starts programs at login; and a client that asks things of nodes.
EXTRA_PROGRAMS += ask-node fake-notifications fake-portal frozen-primeknetd slow-primeknetd
ask_node_CFLAGS = $(AM_CFLAGS) $(PIPEWIRE_CFLAGS)
ask_node_LDADD = $(PIPEWIRE_LIBS)
ask_node_SOURCES = %reldir%/ask_node.c
frozen_primeknetd_CFLAGS = $(AM_CFLAGS) $(PIPEWIRE_CFLAGS)
frozen_primeknetd_SOURCES = %reldir%/frozen_stream.c
frozen_primeknetd_LDADD = $(primeknetd_OBJECTS) $(primeknetd_LDADD)
frozen_primeknetd_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pw_stream_trigger_process,--wrap=pw_stream_destroy \
	-Wl,--wrap=pw_stream_dequeue_buffer
fake_notifications_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
fake_notifications_LDADD = $(SYSTEMD_LIBS)
fake_notifications_SOURCES = %reldir%/fake_notifications.c
fake_portal_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
fake_portal_LDADD = $(SYSTEMD_LIBS)
fake_portal_SOURCES = %reldir%/fake_portal.c
slow_primeknetd_SOURCES = %reldir%/slow_engine.c
slow_primeknetd_LDADD = $(primeknetd_OBJECTS) $(primeknetd_LDADD)
slow_primeknetd_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=engine_process,--wrap=file_read,--wrap=fsync
check_DATA += ask-node fake-notifications fake-portal frozen-primeknetd slow-primeknetd

# Stand-ins for the CUDA module, this version's and another's.
FAKES = fake-cuda.so fake-cuda-old.so
CLEANFILES += $(FAKES)
check_DATA += $(FAKES)
fake-cuda-old.so: FAKE_VERSION = -DFAKE_VERSION='"0"'
FAKE_LIBS = libengine.la libnet.la libkernels.la $(KERNEL_LIBS) libmodel.la libbase.la
$(FAKES): %reldir%/fake_cuda.c src/engine/cuda/cuda.h src/engine/engine_type.h $(FAKE_LIBS)
	$(AM_V_CCLD)$(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(PK_CFLAGS) $(CFLAGS) $(FAKE_VERSION) -fPIC \
	    -shared -Wl,-Bsymbolic -o $@ $(srcdir)/%reldir%/fake_cuda.c $(FAKE_LIBS:%.la=.libs/%.a) $(JANSSON_LIBS) -lm
endif
