# Tests of functions, a folder for each room.

FIXTURES = -DFIXTURES='"$(abs_top_srcdir)/tests/fixtures"'
PROGRAM_TESTS += %reldir%/test_rooms

check_PROGRAMS += test-module
test_module_CPPFLAGS = $(AM_CPPFLAGS) -DN_CUDA_SOURCES=$(words $(CUDA_KERNELS))
test_module_SOURCES = %reldir%/engine/test_module.c

if HAVE_CHECK

# ---- kernels ---------------------------------------------------------------------------------------------------------

check_PROGRAMS += test-kernels
test_kernels_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_kernels_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_kernels_SOURCES = %reldir%/kernels/test_kernels.c tests/support/kernel_cases.c
if CUDA
CUDA_LIBS = $(CUDA_CPPFLAGS:-I%/include=-L%/lib64) -lcudart_static -lstdc++ -ldl -lrt -lpthread
check_PROGRAMS += test-cuda-kernels
test_cuda_kernels_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(FIXTURES)
test_cuda_kernels_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_cuda_kernels_LDADD = $(CUDA_KERNELS:.cu=.cu.o) src/engine/cuda/fft.cuda.o src/engine/cuda/net_cuda.cuda.o \
	$(PRIMEKNET_LIBS) $(CHECK_LIBS) $(CUDA_LIBS)
test_cuda_kernels_SOURCES = %reldir%/kernels/test_cuda_kernels.c
endif

# ---- base, model, net ------------------------------------------------------------------------------------------------

check_PROGRAMS += test-model test-net test-spectrum
test_model_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_model_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS)
test_model_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_model_SOURCES = %reldir%/model/test_model.c tests/support/model_file.c
test_net_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_net_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_net_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_net_SOURCES = %reldir%/net/test_net.c
test_spectrum_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_spectrum_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_spectrum_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_spectrum_SOURCES = %reldir%/net/test_spectrum.c
if DAEMON
check_PROGRAMS += test-busfault
test_busfault_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_busfault_LDADD = $(CHECK_LIBS)
test_busfault_SOURCES = %reldir%/base/test_busfault.c src/base/busfault.c
endif

# ---- print -----------------------------------------------------------------------------------------------------------

check_PROGRAMS += test-enrolment test-print
test_enrolment_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_enrolment_LDADD = libprint.la $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_enrolment_SOURCES = %reldir%/print/test_enrolment.c
test_print_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_print_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS)
test_print_LDADD = libprint.la $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_print_SOURCES = %reldir%/print/test_print.c tests/support/model_file.c

# ---- engine ----------------------------------------------------------------------------------------------------------

check_PROGRAMS += test-choose test-cuda test-engine test-level
test_choose_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_choose_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_choose_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_choose_SOURCES = %reldir%/engine/test_choose.c
test_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_cuda_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_cuda_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_cuda_SOURCES = %reldir%/engine/test_cuda.c
test_engine_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_engine_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_engine_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_engine_SOURCES = %reldir%/engine/test_engine.c tests/support/rt_guard.c
test_level_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_level_LDADD = $(CHECK_LIBS)
test_level_SOURCES = src/engine/level.c tests/support/rt_guard.c %reldir%/engine/test_level.c
if CUDA
check_PROGRAMS += test-cuda-devices
test_cuda_devices_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_cuda_devices_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_cuda_devices_LDADD = libbase.la $(CHECK_LIBS)
test_cuda_devices_SOURCES = %reldir%/engine/test_cuda_devices.c
EXTRA_test_cuda_devices_SOURCES = src/engine/cuda/module.c
endif

# ---- lib, plugins ----------------------------------------------------------------------------------------------------

check_PROGRAMS += test-library
test_library_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES)
test_library_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_library_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_library_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=engine_open,--wrap=engine_process,--wrap=team_new
test_library_SOURCES = %reldir%/lib/test_library.c tests/support/rt_guard.c
if PLUGINS
check_PROGRAMS += test-plugins
test_plugins_CPPFLAGS = $(AM_CPPFLAGS) $(FIXTURES) -DPLUGINS='"$(abs_builddir)"'
test_plugins_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(PLUGINS_CFLAGS)
test_plugins_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS) $(PLUGINS_LIBS)
test_plugins_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=primeknet_open,--wrap=primeknet_process,--wrap=primeknet_close
test_plugins_SOURCES = %reldir%/plugins/test_plugins.c tests/support/rt_guard.c
endif

# ---- live ------------------------------------------------------------------------------------------------------------

check_PROGRAMS += test-pump
test_pump_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_pump_LDADD = $(CHECK_LIBS)
test_pump_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc_trim
test_pump_SOURCES = src/base/memory.c src/engine/level.c src/engine/voice.c src/live/delay.c src/live/reader.c \
	src/live/reduction.c src/live/rt.c src/live/slots.c src/live/times.c tests/support/rt_guard.c %reldir%/live/test_pump.c
EXTRA_test_pump_SOURCES = src/live/pump.c src/live/worker.c
if DAEMON
check_PROGRAMS += test-canceller
test_canceller_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_canceller_LDADD = liblive.a $(PRIMEKNET_LIBS) $(CHECK_LIBS)
test_canceller_SOURCES = tests/support/rt_guard.c %reldir%/live/test_canceller.c
endif

# ---- graph -----------------------------------------------------------------------------------------------------------

if DAEMON
check_PROGRAMS += test-microphone test-recall test-reconcile test-stall
test_microphone_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_microphone_LDADD = $(CHECK_LIBS)
test_microphone_SOURCES = %reldir%/graph/test_microphone.c src/graph/microphone.c
test_recall_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS)
test_recall_LDADD = $(CHECK_LIBS) $(JANSSON_LIBS)
test_recall_SOURCES = %reldir%/graph/test_recall.c src/base/err.c src/base/errands.c src/base/file.c src/base/state.c \
	src/graph/recall.c
test_reconcile_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(PIPEWIRE_CFLAGS)
test_reconcile_LDADD = $(CHECK_LIBS) $(JANSSON_LIBS)
test_reconcile_SOURCES = %reldir%/graph/test_reconcile.c src/base/err.c src/base/errands.c src/base/file.c \
	src/base/state.c src/graph/channel.c src/graph/choices.c src/graph/microphone.c src/graph/mirror.c \
	src/graph/recall.c src/graph/reconcile.c
test_stall_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_stall_LDADD = $(CHECK_LIBS)
test_stall_SOURCES = %reldir%/graph/test_stall.c src/graph/stall.c
endif

# ---- control, daemon -------------------------------------------------------------------------------------------------

check_PROGRAMS += test-control
test_control_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS)
test_control_LDADD = libcontrol.a libbase.la $(CHECK_LIBS) $(JANSSON_LIBS)
test_control_SOURCES = %reldir%/control/test_control.c
if DAEMON
check_PROGRAMS += test-carry test-changes test-gpu-state test-power test-service test-settings
test_carry_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_carry_LDADD = $(CHECK_LIBS)
test_carry_SOURCES = %reldir%/daemon/test_carry.c src/daemon/carry.c
test_changes_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"/nonexistent"'
test_changes_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS) \
	$(SYSTEMD_CFLAGS)
test_changes_LDADD = libcontrol.a libbase.la $(CHECK_LIBS) $(JANSSON_LIBS) $(LIBCONFIG_LIBS)
test_changes_SOURCES = %reldir%/daemon/test_changes.c src/daemon/changes.c src/daemon/conf.c src/daemon/settings.c \
	src/graph/channel.c src/graph/microphone.c
test_gpu_state_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_gpu_state_LDADD = $(CHECK_LIBS)
test_gpu_state_SOURCES = %reldir%/daemon/test_gpu_state.c src/daemon/gpu.c
test_power_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_power_LDADD = $(CHECK_LIBS)
test_power_SOURCES = %reldir%/daemon/test_power.c src/daemon/power.c
test_service_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(SYSTEMD_CFLAGS)
test_service_LDADD = $(CHECK_LIBS) $(SYSTEMD_LIBS)
test_service_SOURCES = %reldir%/daemon/test_service.c src/daemon/service.c src/base/text.c
# The system's settings file is one of the build's here.
test_settings_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(abs_builddir)/test-settings.etc"' \
	-DSHIPPED='"$(abs_builddir)/etc/primeknet.conf"' -DSRCDIR='"$(abs_srcdir)"'
test_settings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LIBCONFIG_CFLAGS) $(PIPEWIRE_CFLAGS)
test_settings_LDADD = $(CHECK_LIBS) $(LIBCONFIG_LIBS)
test_settings_SOURCES = %reldir%/daemon/test_settings.c src/base/err.c src/base/file.c src/base/state.c \
	src/base/text.c src/control/names.c src/control/presets.c src/control/values.c src/daemon/conf.c \
	src/daemon/settings.c src/graph/channel.c
endif

# ---- tool, window ----------------------------------------------------------------------------------------------------

check_PROGRAMS += test-limiter test-score
test_limiter_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_limiter_LDADD = $(CHECK_LIBS)
test_limiter_SOURCES = %reldir%/tool/test_limiter.c src/tool/limiter.c
test_score_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(SNDFILE_CFLAGS) $(SOXR_CFLAGS)
test_score_LDADD = $(PRIMEKNET_LIBS) $(CHECK_LIBS) $(SNDFILE_LIBS) $(SOXR_LIBS)
test_score_SOURCES = %reldir%/tool/test_score.c src/base/file.c src/tool/container.c src/tool/lab/score.c \
	src/tool/sound.c src/tool/sound_file.c
if GTK
check_PROGRAMS += test-window-state
test_window_state_CPPFLAGS = $(primeknet_gtk_CPPFLAGS)
test_window_state_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(GTK_CFLAGS)
test_window_state_LDADD = $(CHECK_LIBS) $(JANSSON_LIBS) $(GTK_LIBS)
test_window_state_SOURCES = %reldir%/window/test_window_state.c src/control/names.c src/window/problem.c \
	src/window/state.c src/window/verdict.c
endif

endif
