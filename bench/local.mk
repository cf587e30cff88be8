# `make bench` runs bench/machine: what each part costs on this machine.

EXTRA_PROGRAMS += bench-chunk bench-cpu bench-hop bench-hours bench-kernels bench-print bench-streams
bench_chunk_CFLAGS = $(AM_CFLAGS) $(SNDFILE_CFLAGS)
bench_chunk_LDADD = $(PRIMEKNET_LIBS) $(SNDFILE_LIBS)
bench_chunk_SOURCES = %reldir%/chunk.c
bench_cpu_CFLAGS = $(AM_CFLAGS) $(OPENBLAS_CFLAGS) -march=native
bench_cpu_LDADD = $(PRIMEKNET_LIBS) $(OPENBLAS_LIBS)
bench_cpu_SOURCES = %reldir%/cpu.c
bench_hop_LDADD = $(PRIMEKNET_LIBS)
bench_hop_SOURCES = %reldir%/hop.c
bench_hours_CFLAGS = $(AM_CFLAGS) $(SNDFILE_CFLAGS)
bench_hours_LDADD = $(PRIMEKNET_LIBS) $(SNDFILE_LIBS)
bench_hours_SOURCES = %reldir%/hours.c
bench_kernels_CFLAGS = $(AM_CFLAGS) $(OPENBLAS_CFLAGS)
bench_kernels_LDADD = $(PRIMEKNET_LIBS) $(OPENBLAS_LIBS)
bench_kernels_SOURCES = %reldir%/kernels.c tests/support/kernel_cases.c
bench_print_LDADD = libprint.la $(PRIMEKNET_LIBS)
bench_print_SOURCES = %reldir%/print.c
bench_streams_LDADD = $(PRIMEKNET_LIBS)
bench_streams_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=engine_process
bench_streams_SOURCES = %reldir%/streams.c $(LIVE_SOURCES) src/live/rt.c
.PHONY: bench bench-programs
bench-programs: bench-chunk bench-cpu bench-hop bench-streams primeknet
bench: bench-programs
	$(srcdir)/%reldir%/machine .
