// The doctor's checks pass with the operations of this program, and fail with operations that are wrong in ways seen in the field.
#include "doctor/examine.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>

namespace tritium::doctor {
namespace {

Device& cpu() {
  static const std::unique_ptr<Device> device = std::move(Device::open("CPU", 2)).value();
  return *device;
}

// The quick check whose operation and description begin like this.
Probe find_probe(const std::string& operation, const std::string& what) {
  for (const Probe& probe : all_probes(cpu()))
    if (probe.operation == operation && probe.what.starts_with(what)) return probe;
  ADD_FAILURE() << "no check '" << operation << ", " << what << "'";
  return {};
}

std::vector<ProbeResult> examined(const Probe& probe, const Operations& operations, bool thorough = false) {
  ExamineOptions options;
  options.operations = operations;
  options.thorough = thorough;
  return examine(cpu(), {probe}, options).value();
}

// Right as it is, and wrong with these operations.
void expect_caught(const std::string& operation, const std::string& what, const Operations& wrong) {
  const Probe probe = find_probe(operation, what);
  const auto right = examined(probe, {});
  ASSERT_FALSE(right.empty());
  EXPECT_EQ(right[0].outcome.verdict, Verdict::ok) << operation << ", " << what << ": " << right[0].outcome.error << " of "
                                                   << right[0].outcome.tolerance << " " << right[0].outcome.note;
  const auto caught = examined(probe, wrong);
  EXPECT_EQ(caught[0].outcome.verdict, Verdict::failed) << operation << ", " << what << ": " << caught[0].outcome.error;
  EXPECT_FALSE(usable(caught));
}

// Through half precision, where what is above 65504 is infinite.
ggml_tensor* halved(Graph& graph, ggml_tensor* x) {
  return ggml_cast(graph.context(), ggml_cast(graph.context(), x, GGML_TYPE_F16), GGML_TYPE_F32);
}

// x [features, rows] with the last feature set to zero.
ggml_tensor* without_last_feature(Graph& graph, ggml_tensor* x) {
  ggml_context* context = graph.context();
  ggml_tensor* most = ggml_cont(context, ggml_view_2d(context, x, x->ne[0] - 1, x->ne[1], x->nb[1], 0));
  return ggml_pad(context, most, 1, 0, 0, 0);
}

TEST(DoctorProbes, C1_HalfPrecisionInLinearLayers) {
  Operations wrong;
  wrong.linear = [](Graph& graph, const ops::Linear& layer, ggml_tensor* x) { return ops::linear(graph, layer, halved(graph, x)); };
  expect_caught("linear", "transformer fc2 14336->5376", wrong);
}

TEST(DoctorProbes, LinearLayerThatForgetsItsLastInput) {
  Operations wrong;
  wrong.linear = [](Graph& graph, const ops::Linear& layer, ggml_tensor* x) {
    return ops::linear(graph, layer, without_last_feature(graph, x));
  };
  expect_caught("linear", "transformer out 7168->5376, bf16", wrong);
  expect_caught("linear", "video decoder qkv", wrong);
  expect_caught("linear", "transformer out 7168->5376, int8", wrong);
}

TEST(DoctorProbes, LinearLayerWithoutItsBias) {
  Operations wrong;
  wrong.linear = [](Graph& graph, const ops::Linear& layer, ggml_tensor* x) {
    return ops::linear(graph, {layer.weight, nullptr, nullptr, nullptr}, x);
  };
  expect_caught("linear", "modulation, pruned", wrong);
}

TEST(DoctorProbes, C1_HalfPrecisionInTheResidualStream) {
  Operations wrong;
  wrong.rms_norm = [](Graph& graph, ggml_tensor* x, ggml_tensor* w, float eps) { return ops::rms_norm(graph, halved(graph, x), w, eps); };
  wrong.gated_add = [](Graph& graph, ggml_tensor* residual, ggml_tensor* y, const ops::Modulation& modulation, int gate) {
    return ops::gated_add(graph, halved(graph, residual), y, modulation, gate);
  };
  expect_caught("rms_norm", "5376 features", wrong);
  expect_caught("gated_add", "5376 features", wrong);
}

TEST(DoctorProbes, SmallMistakesOfPointwiseOperations) {
  Operations wrong;
  wrong.modulate = [](Graph& graph, ggml_tensor* x, const ops::Modulation& modulation, int shift, int scale) {
    return ops::modulate(graph, x, modulation, scale, shift);
  };
  wrong.rms_norm = [](Graph& graph, ggml_tensor* x, ggml_tensor* w, float eps) { return ops::rms_norm(graph, x, w, 1e7f * eps); };
  wrong.layer_norm = [](Graph& graph, ggml_tensor* x, ggml_tensor* w, ggml_tensor* b, float eps) {
    return ops::layer_norm(graph, x, w, ggml_scale(graph.context(), b, 1.001f), eps);
  };
  wrong.silu_gate = [](Graph& graph, ggml_tensor* x) { return halved(graph, ops::silu_gate(graph, x)); };
  wrong.rotate = [](Graph& graph, ggml_tensor* x, const ops::RotaryTable& table) {
    return ops::rotate(graph, x, {table.cos, ggml_neg(graph.context(), table.sin)});
  };
  expect_caught("modulate", "", wrong);
  expect_caught("rms_norm", "56 heads", wrong);
  expect_caught("layer_norm", "", wrong);
  expect_caught("silu_gate", "", wrong);
  expect_caught("rotate", "", wrong);
}

// Keys beyond the 64th are not seen.
ggml_tensor* short_sighted(Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, ops::AttentionMask mask,
                           std::int64_t max_scores, MatrixPrecision precision) {
  constexpr std::int64_t kSeen = 64;
  if (k->ne[2] <= kSeen || mask == ops::AttentionMask::causal) return ops::attention(graph, q, k, v, scale, mask, max_scores, precision);
  const auto first = [&](ggml_tensor* x) { return ggml_view_3d(graph.context(), x, x->ne[0], x->ne[1], kSeen, x->nb[1], x->nb[2], 0); };
  return ops::attention(graph, q, first(k), first(v), scale, mask, max_scores, precision);
}

TEST(DoctorProbes, C13_AttentionThatIsWrongBeyond64Tokens) {
  Operations wrong;
  wrong.attention = short_sighted;
  expect_caught("attention", "refiner", wrong);
  const auto results = examined(find_probe("attention", "refiner"), wrong);
  EXPECT_NE(results[0].outcome.note.find("tokens"), std::string::npos) << results[0].outcome.note;
  EXPECT_EQ(results[0].outcome.note.find("at 64 tokens"), std::string::npos) << results[0].outcome.note;
}

TEST(DoctorProbes, AttentionMistakes) {
  Operations wrong;
  wrong.attention = [](Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, ops::AttentionMask, std::int64_t most,
                       MatrixPrecision precision) {
    return ops::attention(graph, q, k, v, scale, ops::AttentionMask::none, most, precision);
  };
  expect_caught("attention", "text of 1 to 600 tokens, causal", wrong);
  wrong.attention = [](Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, ops::AttentionMask mask,
                       std::int64_t most,
                       MatrixPrecision precision) { return ops::attention(graph, q, k, v, scale * 1.01f, mask, most, precision); };
  expect_caught("attention", "832x480", wrong);
  // Scores that went through half precision before the softmax.
  wrong.attention = [](Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, ops::AttentionMask mask,
                       std::int64_t most, MatrixPrecision precision) {
    return ops::attention(graph, ggml_scale(graph.context(), halved(graph, ggml_scale(graph.context(), q, 500.0f)), 1 / 500.0f), k, v,
                          scale, mask, most, precision);
  };
  expect_caught("attention", "values up to 500", wrong);
}

TEST(DoctorProbes, OffsetsCutTo32Bits) {
  Operations wrong;
  wrong.attention = [](Graph& graph, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, float scale, ops::AttentionMask mask,
                       std::int64_t most, MatrixPrecision precision) {
    const auto cut = [&](ggml_tensor* x) {
      return ggml_view_3d(graph.context(), x->view_src, x->ne[0], x->ne[1], x->ne[2], x->nb[1], x->nb[2], x->view_offs & 0xFFFFFFFFu);
    };
    return ops::attention(graph, cut(q), cut(k), cut(v), scale, mask, most, precision);
  };
  const Outcome right = examined(find_probe("attention", "last rows of 2^31 elements"), {})[0].outcome;
  if (right.verdict == Verdict::left_out) GTEST_SKIP() << right.note;  // no address space for 8 GiB
  expect_caught("attention", "last rows of 2^31 elements", wrong);
}

TEST(DoctorProbes, ConvolutionMistakes) {
  Operations wrong;
  wrong.conv3d = [](Graph& graph, const ops::Conv3d& layer, ggml_tensor* x, ggml_tensor*, const ops::Conv3dStride& stride,
                    std::int64_t most) {
    return ops::conv3d(graph, layer, x, nullptr, stride, most);  // forgets the frames before
  };
  wrong.group_norm = [](Graph& graph, ggml_tensor* x, ggml_tensor* w, ggml_tensor* b, int groups, float eps) {
    return ops::group_norm(graph, x, w, b, groups / 2, eps);
  };
  wrong.conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int padding, int dilation, std::int64_t most) {
    if (x->ne[1] == 8) return ggml_scale(graph.context(), ops::conv1d(graph, layer, x, padding, dilation, most), 1.01f);
    return ops::conv1d(graph, layer, x, padding, dilation, most);
  };
  wrong.transposed_conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, std::int64_t out, std::int64_t stride) {
    return ops::transposed_conv1d(graph, {layer.weight, nullptr}, x, out, stride);
  };
  wrong.strided_conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, std::int64_t stride) {
    return ops::strided_conv1d(graph, {layer.weight, nullptr}, x, stride);
  };
  expect_caught("conv3d", "128->128", wrong);
  expect_caught("group_norm", "128", wrong);
  expect_caught("conv1d", "8 channels, kernels", wrong);
  expect_caught("transposed_conv1d", "64->32", wrong);
  expect_caught("strided_conv1d", "64->128", wrong);
}

TEST(DoctorProbes, ActivationMistakes) {
  Operations wrong;
  wrong.alias_free_snake = [](Graph& graph, const ops::AliasFreeSnake& layer, ggml_tensor* x) {
    return ops::alias_free_snake(graph, {layer.inverse_magnitude, layer.frequency, layer.up, layer.down}, x);
  };
  wrong.pointwise_snake = [](Graph& graph, const ops::PointwiseSnake& layer, ggml_tensor* x) {
    return ops::pointwise_snake(graph, {layer.inverse_magnitude, layer.frequency}, x);
  };
  expect_caught("alias_free_snake", "8 channels", wrong);
  expect_caught("pointwise_snake", "64 channels", wrong);
}

TEST(DoctorExamine, C12_KernelThatIsWrongWherePlainOperationsAreRight) {
  Operations wrong;
  wrong.conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int padding, int dilation, std::int64_t most) {
    ggml_tensor* y = ops::conv1d(graph, layer, x, padding, dilation, most);
    return graph.device().fast_kernels() ? ggml_scale(graph.context(), y, 1.1f) : y;
  };
  const auto results = examined(find_probe("conv1d", "32->2048"), wrong);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].path, "kernels");
  EXPECT_EQ(results[0].outcome.verdict, Verdict::failed);
  EXPECT_NE(results[0].outcome.note.find("plain operations are right"), std::string::npos) << results[0].outcome.note;
  EXPECT_EQ(results[1].path, "plain");
  EXPECT_EQ(results[1].outcome.verdict, Verdict::ok);
  EXPECT_FALSE(usable(results));
  const auto lines = advice(results, "CPU");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("TRITIUM_KERNELS=plain"), std::string::npos) << lines[0];
  EXPECT_TRUE(cpu().fast_kernels());
}

TEST(DoctorExamine, WrongBothWaysIsNoReasonToSwitch) {
  Operations wrong;
  wrong.conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int padding, int dilation, std::int64_t most) {
    return ggml_scale(graph.context(), ops::conv1d(graph, layer, x, padding, dilation, most), 1.1f);
  };
  const auto lines = advice(examined(find_probe("conv1d", "32->2048"), wrong), "CPU");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("TRITIUM_KERNELS"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("conv1d"), std::string::npos) << lines[0];
}

TEST(DoctorExamine, KernelThatIsNotThereIsRefusedAndThePlainOneLookedAt) {
  Operations other;
  other.conv1d = [](Graph& graph, const ops::Conv1d& layer, ggml_tensor* x, int padding, int dilation, std::int64_t most) {
    Device& device = graph.device();
    const bool kernels = device.fast_kernels();
    device.set_fast_kernels(false);
    ggml_tensor* y = ops::conv1d(graph, layer, x, padding, dilation, most);
    device.set_fast_kernels(kernels);
    return y;
  };
  // The graph is built with the kernels off and run with them on, so no kernel is in it.
  const auto results = examined(find_probe("conv1d", "32->2048"), other);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].outcome.verdict, Verdict::refused);
  EXPECT_NE(results[0].outcome.note.find("plain operations are used instead"), std::string::npos) << results[0].outcome.note;
  EXPECT_EQ(results[1].outcome.verdict, Verdict::ok);
  EXPECT_TRUE(usable(results));
  EXPECT_TRUE(advice(results, "CPU").empty());
}

class Trivial : public testing::Test {
 protected:
  static Probe probe(std::function<Result<Comparison>(Bench&)> run) { return {"trivial", "nothing", 0, false, false, std::move(run)}; }
  static Result<Comparison> right(Bench&) {
    Comparison out;
    out.check(1.0f, 1.0, 1.0, 1e-6);
    return out;
  }
};

TEST_F(Trivial, NothingComparedIsNoPass) {
  const auto results = examined(probe([](Bench&) { return Comparison(); }), {});
  EXPECT_EQ(results[0].outcome.verdict, Verdict::failed);
}

TEST_F(Trivial, ErrorsAreFailuresButForMemory) {
  EXPECT_EQ(judge(Error{ErrorCode::device, "lost", "", ""}, {}).verdict, Verdict::failed);
  const Outcome memory = judge(Error{ErrorCode::does_not_fit, "no room", "", ""}, {});
  EXPECT_EQ(memory.verdict, Verdict::left_out);
  EXPECT_EQ(memory.note, "no room");
}

TEST_F(Trivial, WhatElseIsUsedIsSaid) {
  Bench bench(cpu());
  const Outcome moved = judge(right(bench), {false, false, {"GET_ROWS"}});
  EXPECT_EQ(moved.verdict, Verdict::refused);
  EXPECT_NE(moved.note.find("GET_ROWS"), std::string::npos);
  EXPECT_EQ(judge(right(bench), {true, false, {}}).verdict, Verdict::refused);
  EXPECT_EQ(judge(right(bench), {true, true, {}}).verdict, Verdict::ok);
  EXPECT_EQ(judge(right(bench), {false, false, {}}).verdict, Verdict::ok);
}

TEST_F(Trivial, NumbersThatAreNoneFail) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Comparison out;
    out.check(0.0f, 0.0, 1.0, 1.0);
    out.check(value, 0.0, 1.0, 1.0);
    out.check(0.5f, 0.0, 1.0, 1.0);
    EXPECT_FALSE(out.passed());
    EXPECT_TRUE(std::isinf(out.error()));
  }
}

TEST_F(Trivial, TheWorstInTolerancesIsKept) {
  Comparison out;
  out.check(0.5f, 0.0, 1.0, 1.0);
  out.check(1e-3f, 0.0, 1.0, 1e-4);  // smaller, but far above its own tolerance
  out.check(0.6f, 0.0, 1.0, 1.0);
  EXPECT_FALSE(out.passed());
  EXPECT_DOUBLE_EQ(out.tolerance(), 1e-4);
  Comparison good, all;
  good.check(0.1f, 0.0, 1.0, 1.0);
  all.merge(good, "first");
  all.merge(out, "second");
  EXPECT_EQ(all.where(), "second");
  EXPECT_EQ(all.count(), 4);
}

TEST_F(Trivial, ChecksAreLeftOutWithAReason) {
  Probe large = probe(right);
  large.bytes = std::uint64_t{1} << 60;
  EXPECT_EQ(examined(large, {})[0].outcome.verdict, Verdict::left_out);
  EXPECT_NE(examined(large, {})[0].outcome.note.find("is free"), std::string::npos);

  Probe thorough = probe(right);
  thorough.thorough = true;
  EXPECT_TRUE(examined(thorough, {}).empty());
  EXPECT_EQ(examined(thorough, {}, true).size(), 1u);

  ExamineOptions hurried;
  hurried.seconds = 1e-9;
  const auto late = examine(cpu(), {probe(right)}, hurried).value();
  EXPECT_EQ(late[0].outcome.verdict, Verdict::left_out);
  EXPECT_TRUE(usable(late));
}

TEST_F(Trivial, CanBeInterrupted) {
  CancelToken token;
  token.cancel();
  ExamineOptions options;
  options.cancel = &token;
  EXPECT_EQ(examine(cpu(), {probe(right)}, options).error().code, ErrorCode::interrupted);
}

TEST(DoctorValues, RepeatWithoutAPowerOfTwo) {
  const Values values(1, 3);
  EXPECT_EQ(values.at(5)[0], values.at(5 + Values::kPeriod)[0]);
  EXPECT_EQ(values.at(5 + Values::kPeriod)[Values::kLongest - 6], values.at(Values::kLongest - 1)[0]);
  for (int bit = 0; bit < 40; ++bit) EXPECT_NE(values.at(7)[0], values.at(7 + (std::int64_t{1} << bit))[0]) << bit;
  EXPECT_EQ(values.first(3)[2], values.at(2)[0]);
  for (const float v : values.first(1000)) EXPECT_LE(std::abs(v), 3.0f);
}

TEST(DoctorValues, PickedIndexesHaveBothEnds) {
  EXPECT_EQ(picked(5, 9), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(picked(101, 3), (std::vector<std::int64_t>{0, 50, 100}));
  EXPECT_EQ(picked(101, 1), (std::vector<std::int64_t>{100}));
  EXPECT_TRUE(picked(0, 3).empty());
}

}  // namespace
}  // namespace tritium::doctor
