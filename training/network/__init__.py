"""The network and its special operations, with GPU kernels in *_triton.py."""
