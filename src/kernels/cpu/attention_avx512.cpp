#include "kernels/cpu/attention_avx512_vector.h"

#define TRITIUM_ATTENTION_VECTOR Avx512
#define TRITIUM_ATTENTION_ELEMENT Float
#include "kernels/cpu/attention_tile.h"

namespace tritium::cpu {

// 32 registers: 28 accumulators, two vectors of keys, one query.
const AttentionFunctions kAttentionAvx512{4, 14, 2 * Avx512::kLanes, Float::convert, multiply<14, 2>, softmax};

}  // namespace tritium::cpu
