# The kernels: the references, and the vectorised versions, compiled once for each instruction set that kernels.c may
# choose.

noinst_LTLIBRARIES += libkernels.la libkernels-baseline.la
libkernels_la_SOURCES = \
	%reldir%/kernels.c %reldir%/attend/attend_ref.c %reldir%/conv/conv_ref.c %reldir%/depthwise/depthwise_ref.c \
	%reldir%/fft/fft_ref.c %reldir%/gru/gru_ref.c %reldir%/linear/linear_ref.c %reldir%/lstm/lstm_ref.c \
	%reldir%/power/power_ref.c %reldir%/scan/scan_ref.c %reldir%/ssd/ssd_ref.c
KERNEL_LIBS = libkernels-baseline.la
libkernels_baseline_la_SOURCES = %reldir%/cpu.c
libkernels_baseline_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_baseline
if X86_64
X86_KERNEL_LIBS = libkernels-avx2.la libkernels-avx-vnni.la libkernels-avx512.la libkernels-avx512-vnni.la \
	libkernels-avx512-bf16.la
KERNEL_LIBS += $(X86_KERNEL_LIBS)
noinst_LTLIBRARIES += $(X86_KERNEL_LIBS)
libkernels_avx2_la_SOURCES = %reldir%/cpu.c
libkernels_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_avx2 -DKERNELS_NAME='"AVX2"'
libkernels_avx2_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma
libkernels_avx_vnni_la_SOURCES = %reldir%/cpu.c
libkernels_avx_vnni_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_avx_vnni -DKERNELS_NAME='"AVX-VNNI"'
libkernels_avx_vnni_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mavxvnni
libkernels_avx512_la_SOURCES = %reldir%/cpu.c
libkernels_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_avx512 -DKERNELS_NAME='"AVX-512"'
AVX512_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mtune=skylake-avx512
libkernels_avx512_la_CFLAGS = $(AM_CFLAGS) $(AVX512_FLAGS)
libkernels_avx512_vnni_la_SOURCES = %reldir%/cpu.c
libkernels_avx512_vnni_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_avx512_vnni -DKERNELS_NAME='"AVX-512 VNNI"'
libkernels_avx512_vnni_la_CFLAGS = $(AM_CFLAGS) $(AVX512_FLAGS) -mavx512vnni
libkernels_avx512_bf16_la_SOURCES = %reldir%/cpu.c
libkernels_avx512_bf16_la_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS=kernels_avx512_bf16 -DKERNELS_NAME='"AVX-512 BF16"'
libkernels_avx512_bf16_la_CFLAGS = $(AM_CFLAGS) $(AVX512_FLAGS) -mavx512bf16
endif

# Those of the CUDA engine, which src/engine/cuda/local.mk links.
CUDA_KERNELS = \
	%reldir%/attend/attend_cuda.cu %reldir%/conv/conv_cuda.cu %reldir%/depthwise/depthwise_cuda.cu \
	%reldir%/fft/fft_cuda.cu %reldir%/history/history_cuda.cu %reldir%/hop/hop_cuda.cu %reldir%/linear/linear_cuda.cu \
	%reldir%/prime/prime_cuda.cu %reldir%/recurrent/recurrent_cuda.cu %reldir%/scan/scan_cuda.cu \
	%reldir%/spectrum/spectrum_cuda.cu %reldir%/ssd/ssd_cuda.cu
if CUDA
NVCC_FLAGS = -O3 -lineinfo -std=c++17 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -I$(srcdir) -I$(srcdir)/src
$(CUDA_KERNELS): ; # not to be made of its own object, as make's rule for programs would have it
$(CUDA_KERNELS:.cu=.cu.o): %.cu.o: %.cu
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) $(NVCC_ARCHS) $(NVCC_FLAGS) -MD -MF $@.d -c -o $@ $<
# The same bits for any number of positions per block: products are fused with sums only where the source says so.
%reldir%/hop/hop_cuda.cu.o: NVCC_FLAGS += -fmad=false -ftz=true
endif
