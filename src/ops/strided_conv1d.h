// The downsampling convolution of the audio encoder (spec/vae.md §2.3): kernel twice the stride, exactly one output sample per `stride`
// input samples.
#pragma once

#include "ops/convolution.h"

namespace tritium::ops {

// It is run as an ordinary convolution with two taps on signals whose samples are dealt out to `stride` channels each. Rearranges weights
// [out, in, 2·stride] (torch order, row-major) into that convolution's [out, in·stride, 2] with channel = in·stride + phase.
std::vector<float> strided_weights(std::span<const float> weights, std::int64_t in, std::int64_t out, std::int64_t stride);

// Applies such a layer with zero padding of ceil(stride/2) samples in front: x [length, in] -> [length/stride, out].
// Preconditions: stride >= 2, length is a multiple of stride.
ggml_tensor* strided_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, std::int64_t stride);

}  // namespace tritium::ops
