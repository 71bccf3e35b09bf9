// Causal 3x3x3 convolution of float32 frames laid out [channels, width, height, frames] (channels innermost). Source: spec/vae.md §1.3.
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// Weight [out, in, 27], see conv3d_weights; bias [out].
struct Conv3d {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;

  [[nodiscard]] std::int64_t in() const { return weight->ne[1]; }
  [[nodiscard]] std::int64_t out() const { return weight->ne[0]; }
};

inline constexpr std::int64_t kConv3dTaps = 27;  // order: time, y, x
inline constexpr std::int64_t kConv3dPast = 2;   // frames in front of the current one that an output frame sees

// Rearranges weights [out, in, 3, 3, 3] (torch order, row-major) into [27, in, out].
std::vector<float> conv3d_weights(std::span<const float> weights, std::int64_t in, std::int64_t out);

// How the output positions follow from those of the input.
struct Conv3dStride {
  // 1: the border is reflected by one position on every side. 2: on the right and at the bottom only; width and height must be even.
  int space = 1;
  // The first output frame is that of input frame `phase` (below `time`); input frames that no output belongs to are only seen.
  int time = 1, phase = 0;
};

// Values of the unfolded input at once, on devices without the CPU kernel: 128 MiB.
inline constexpr std::int64_t kMaxConv3dColumns = std::int64_t{32} << 20;

// x [in, width, height, frames] -> [out, width/space, height/space, (frames - phase - 1)/time + 1]. An output frame sees its input frame
// and the two before it. `before` [in, width, height, 2] holds the frames in front of x; nullptr means zeros, which cost nothing.
// Preconditions: width, height >= 2; frames > phase.
ggml_tensor* conv3d(Graph& graph, const Conv3d& layer, ggml_tensor* x, ggml_tensor* before, const Conv3dStride& stride = {},
                    std::int64_t max_columns = kMaxConv3dColumns);

// Nodes that one convolution adds to a graph: for every slice of the unfolded input, and besides.
inline constexpr std::size_t kConv3dSliceNodes = 32, kConv3dNodes = 32;

}  // namespace tritium::ops
