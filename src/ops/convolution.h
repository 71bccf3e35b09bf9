// One-dimensional convolutions of float32 signals laid out [length, channels] (length innermost).
#pragma once

#include "device/graph.h"

namespace tritium::ops {

// Weight [kernel, in, out] (the file's [out, in, kernel]); bias [out] or nullptr.
struct Conv1d {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;
};

// Values of the unfolded input (kernel·in per output sample) in memory at once: 512 MiB.
inline constexpr std::int64_t kMaxColumnValues = std::int64_t{128} << 20;

// Zero padding of `padding` samples on both sides, stride 1: x [length, in] -> [length + 2·padding - dilation·(kernel-1), out].
// A signal whose unfolded form exceeds `max_columns` values is computed in parts along the time (one sample at least).
ggml_tensor* conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, int padding, int dilation,
                    std::int64_t max_columns = kMaxColumnValues);

// A transposed convolution with stride r and padding (kernel - r)/2 keeps exactly r output samples per input sample. It is run as
// an ordinary convolution that yields the r phases as channels: phase p of sample i takes the taps q with q ≡ p + padding (mod r).
// Rearranges weights [in, out, kernel] (torch order, row-major) into that convolution's [out·r, in, taps] with channel = phase·out + o,
// for conv1d with padding = (taps-1)/2; `taps` is returned by polyphase_taps.
std::int64_t polyphase_taps(std::int64_t kernel, std::int64_t stride);
std::vector<float> polyphase_weights(std::span<const float> weights, std::int64_t in, std::int64_t out, std::int64_t kernel,
                                     std::int64_t stride);

// Applies such a layer: x [length, in] -> [length·stride, out]. `layer.bias` is [out].
ggml_tensor* transposed_conv1d(Graph& graph, const Conv1d& layer, ggml_tensor* x, std::int64_t out, std::int64_t stride);

// `count` copies of the first sample in front and of the last sample behind: [length, channels] -> [length + before + after, channels].
ggml_tensor* pad_replicate(Graph& graph, ggml_tensor* x, int before, int after);

}  // namespace tritium::ops
