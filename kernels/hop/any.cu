/* any.cu - the hop's kernels for any sizes and mixers. */
#include "chain.cuh"

extern const hop_chain hop_chain_any = chain_of<0>();
