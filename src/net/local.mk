noinst_LTLIBRARIES += libnet.la
libnet_la_SOURCES = %reldir%/bands.c %reldir%/net.c %reldir%/plan.c %reldir%/spectrum.c %reldir%/stft.c
