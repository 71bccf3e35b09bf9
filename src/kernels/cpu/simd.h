// Which instruction sets the hand-written kernels were compiled for, and which of them this machine has.
//
// A kernel is written once, in a header, and compiled once per set by a small source file with the compiler switches of that set.
// Such files must not include anything with inline functions shared with the rest of the program: the linker may pick their copy.
#pragma once

#include <string_view>

namespace tritium::cpu {

enum class Isa { generic, avx2, avx512 };

// Usable here, best first; `generic` is always last. TRITIUM_KERNELS=avx2 or generic in the environment leaves the better ones out, as on
// an older machine; oneDNN has ONEDNN_MAX_CPU_ISA for that.
struct IsaList {
  Isa items[3];
  int count;
  [[nodiscard]] const Isa* begin() const { return items; }
  [[nodiscard]] const Isa* end() const { return items + count; }
};
IsaList usable_isas();

// What some AVX-512 machines have besides: products of bfloat16, of 8-bit integers.
bool has_avx512_bf16();
bool has_avx512_vnni();
// The latter in 256 bits, which machines without AVX-512 may have too.
bool has_avx_vnni();

std::string_view isa_name(Isa isa);

}  // namespace tritium::cpu
