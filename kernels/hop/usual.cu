/* usual.cu - the hop's kernels for the shapes of the shipped models. */
#include "chain.cuh"

extern const hop_chain hop_chain_16 = chain_of<16>(), hop_chain_32 = chain_of<32>(), hop_chain_64 = chain_of<64>();
