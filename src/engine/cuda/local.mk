# The CUDA engine: a module that is loaded at run time.

CUDA_HOST = src/base/err.c src/model/access.c src/net/plan.c %reldir%/module.c %reldir%/hop.c %reldir%/chunk.c \
	%reldir%/fft.c %reldir%/net_cuda.c
if CUDA
CUDA_OBJECTS = $(CUDA_KERNELS:.cu=.cu.o) $(CUDA_HOST:.c=.cuda.o)
moduledir = $(pkglibdir)
module_DATA = primeknet-cuda.so
CLEANFILES += primeknet-cuda.so $(CUDA_OBJECTS)
$(CUDA_HOST:.c=.cuda.o): %.cuda.o: %.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(CPPFLAGS) \
	    $(PK_CFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -MD -MF $@.d -c -o $@ $<
primeknet-cuda.so: $(CUDA_OBJECTS)
	$(AM_V_CCLD)$(NVCC) -shared -nodlink -cudart static -o $@ $(CUDA_OBJECTS)
-include $(CUDA_OBJECTS:=.d)
endif
