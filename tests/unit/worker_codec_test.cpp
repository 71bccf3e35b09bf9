// Everything that a worker and its caller send each other comes back as it was, and nothing else is accepted.
#include "job/worker_codec.h"

#include "job/job_fields.h"
#include "job/stored_job.h"
#include "job/worker_fields.h"
#include "unit/demo_plan.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace tritium {
namespace {

using nlohmann::json;

// Sets every listed field to a value that no other field has.
class Filler {
 public:
  void operator()(const char*, auto& member) { fill(member); }

 private:
  void fill(bool& b) { b = true; }
  void fill(std::string& s) { s = "text " + std::to_string(++count_); }
  void fill(std::filesystem::path& p) { p = "file/" + std::to_string(++count_); }
  void fill(std::integral auto& number) { number = static_cast<std::remove_reference_t<decltype(number)>>(++count_); }
  void fill(std::floating_point auto& number) { number = static_cast<std::remove_reference_t<decltype(number)>>(++count_) + 1 / 3.0f; }
  void fill(Fit& fit) { fit = Fit::stretch; }
  void fill(ReferenceInput::Kind& kind) { kind = ReferenceInput::Kind::audio; }
  void fill(ErrorCode& code) { code = ErrorCode::interrupted; }
  void fill(JobState& state) { state = JobState::failed; }
  template <class T>
  void fill(std::optional<T>& optional) {
    fill(optional.emplace());
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.resize(2);
    for (T& entry : list) fill(entry);
  }
  template <class T, std::size_t N>
  void fill(std::array<T, N>& list) {
    for (T& entry : list) fill(entry);
  }
  template <class T>
  requires std::is_aggregate_v<T>
  void fill(T& object) { fields::list(*this, object); }

  int count_ = 0;
};

template <class T>
T filled() {
  T out{};
  Filler filler;
  fields::list(filler, out);
  return out;
}

template <class T>
T through(const T& message) {
  auto out = decode_message<T>(encode_message(message));
  EXPECT_TRUE(out.ok()) << out.error().text();
  return out.ok() ? std::move(*out) : T{};
}

template <class T>
std::string problem(const std::string& text) {
  const auto decoded = decode_message<T>(text);
  EXPECT_FALSE(decoded.ok()) << "accepted: " << text.substr(0, 200);
  return decoded.ok() ? "" : decoded.error().message;
}

// Walks over a struct as the compiler laid it out. With every member listed in order, each begins where the one before it ends, up to
// alignment, and the last ends with the struct.
template <class T>
void expect_complete(const char* name) {
  T object{};
  const auto* const base = reinterpret_cast<const char*>(&object);
  std::size_t end = 0;
  const auto aligned = [](std::size_t at, std::size_t alignment) { return (at + alignment - 1) / alignment * alignment; };
  fields::list(
      [&](const char* field, auto& member) {
        const auto at = static_cast<std::size_t>(reinterpret_cast<const char*>(&member) - base);
        EXPECT_EQ(at, aligned(end, alignof(std::remove_reference_t<decltype(member)>)))
            << name << ": in src/job/worker_fields.h a field is missing before '" << field << "', or it is out of order";
        end = at + sizeof(member);
      },
      object);
  EXPECT_EQ(sizeof(T), aligned(end, alignof(T))) << name << ": in src/job/worker_fields.h a field is missing at the end";
}

// A small member can hide where the compiler leaves a gap; PlanOfTheDemoModel finds that too, once it is printed.
TEST(WorkerCodec, EveryMemberIsListed) {
  expect_complete<EngineOptions>("EngineOptions");
  expect_complete<ReferenceInput>("ReferenceInput");
  expect_complete<RetakeInput>("RetakeInput");
  expect_complete<LoraInput>("LoraInput");
  expect_complete<Request>("Request");
  expect_complete<OutputOptions>("OutputOptions");
  expect_complete<Adjustment>("Adjustment");
  expect_complete<DeviceShare>("DeviceShare");
  expect_complete<StagePlan>("StagePlan");
  expect_complete<MemoryPeak>("MemoryPeak");
  expect_complete<LoraPlan>("LoraPlan");
  expect_complete<Plan>("Plan");
  expect_complete<Progress>("Progress");
  expect_complete<StageTiming>("StageTiming");
  expect_complete<Artifact>("Artifact");
  expect_complete<Error>("Error");
  expect_complete<HelloMessage>("HelloMessage");
  expect_complete<OpenMessage>("OpenMessage");
  expect_complete<OpenedMessage>("OpenedMessage");
  expect_complete<PlanMessage>("PlanMessage");
  expect_complete<GenerateMessage>("GenerateMessage");
  expect_complete<FailedMessage>("FailedMessage");
  expect_complete<JobSpec>("JobSpec");
  expect_complete<JobError>("JobError");
  expect_complete<JobOutput>("JobOutput");
  expect_complete<Job>("Job");
}

template <class T>
void expect_exact() {
  for (const T& message : {T{}, filled<T>()}) {
    const std::string text = encode_message(message);
    EXPECT_EQ(encode_message(through(message)), text);
  }
  // Whatever is missing, unknown or of another type has its name in the error.
  const json document = json::parse(encode_message(filled<T>()));
  const std::string whole = document.dump();
  for (std::size_t length = 0; length < whole.size(); ++length) (void)problem<T>(whole.substr(0, length));
  for (const auto& [name, value] : document.items()) {
    json changed = document;
    changed.erase(name);
    EXPECT_NE(problem<T>(changed.dump()).find("'" + name + "'"), std::string::npos);
    changed[name] = json::object({{"what", "is this"}});
    EXPECT_NE(problem<T>(changed.dump()).find(name), std::string::npos);
  }
  json more = document;
  more["surprise"] = 1;
  EXPECT_NE(problem<T>(more.dump()).find("unknown field 'surprise'"), std::string::npos);
  for (const char* other : {"null", "1", "[]", "\"text\"", "true"}) (void)problem<T>(other);
}

TEST(WorkerCodec, EveryMessageComesBackAsItWas) {
  expect_exact<HelloMessage>();
  expect_exact<OpenMessage>();
  expect_exact<OpenedMessage>();
  expect_exact<PlanMessage>();
  expect_exact<GenerateMessage>();
  expect_exact<Plan>();
  expect_exact<Progress>();
  expect_exact<Artifact>();
  expect_exact<FailedMessage>();
}

// A store outlives the program's version.
TEST(WorkerCodec, StoredJobsOfOtherVersionsCanBeRead) {
  const std::string whole = encode_job(filled<Job>());
  const auto back = decode_job(whole);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(encode_job(*back), whole);
  json document = json::parse(whole);
  document["plan"]["new"] = 1;
  document["spec"]["request"].erase("prompt");
  const auto other = decode_job(document.dump());
  ASSERT_TRUE(other.ok()) << other.error().text();
  EXPECT_EQ(other->spec.request.prompt, "");
  EXPECT_EQ(other->spec.dialect, back->spec.dialect);
  document["state"] = "running";
  EXPECT_FALSE(decode_job(document.dump()).ok());
  EXPECT_FALSE(decode_job("{").ok());
}

TEST(WorkerCodec, ANestedFieldIsNamedWithItsPlace) {
  json document = json::parse(encode_message(filled<Artifact>()));
  document["plan"]["stages"][1]["extra"] = 1;
  EXPECT_NE(problem<Artifact>(document.dump()).find("'plan.stages[1]' has the unknown field 'extra'"), std::string::npos)
      << problem<Artifact>(document.dump());
  document["plan"]["stages"][1].erase("extra");
  document["plan"]["loras"][0]["scales"][1] = "one";
  EXPECT_NE(problem<Artifact>(document.dump()).find("'plan.loras[0].scales[1]' has to be a number"), std::string::npos)
      << problem<Artifact>(document.dump());
}

class PlanCodec : public test::DemoPlan {};

TEST_F(PlanCodec, PlanOfTheDemoModel) {
  request.frames = 23;  // gives an adjustment
  Plan made = plan();
  made.loras.push_back(filled<LoraPlan>());
  EXPECT_EQ(plan_json(through(made)), plan_json(made));
  EXPECT_EQ(plan_text(through(made)), plan_text(made));
  const Plan every = filled<Plan>();
  EXPECT_EQ(plan_json(through(every)), plan_json(every));
}

TEST(WorkerCodec, TextThatIsNotUtf8) {
  Request request;
  request.first_frame = "caf\xe9.png";
  for (const std::string& text : {std::string("\xff"), std::string("a\0b", 3), std::string("\xed\xa0\x80"), std::string("\xc0\x80"),
                                  std::string("\xf0\x9f\x8e\xac"), std::string("quote \" back \\ line \n"), std::string()}) {
    request.prompt = text;
    const Request back = through(PlanMessage{"", request}).request;
    EXPECT_EQ(back.prompt, text);
    EXPECT_EQ(back.first_frame, request.first_frame);
  }
  json document = json::parse(encode_message(PlanMessage{"", request}));
  for (const json& wrong :
       {json{{"hex", "f"}}, json{{"hex", "xy"}}, json{{"hex", "+1"}}, json{{"hex", 1}}, json{{"hex", "00"}, {"more", 1}}}) {
    document["request"]["prompt"] = wrong;
    EXPECT_NE(problem<PlanMessage>(document.dump()).find("'request.prompt' has to be a string"), std::string::npos) << wrong;
  }
}

TEST(WorkerCodec, NumbersAtTheirLimits) {
  Request request;
  const auto back = [&] { return through(PlanMessage{"", request}).request; };
  for (const std::uint64_t seed : {std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 53 | 1}) {
    request.seed = seed;
    EXPECT_EQ(back().seed, seed);
  }
  for (const std::int64_t width : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    request.width = width;
    EXPECT_EQ(back().width, width);
  }
  for (const double x : {0.1, 1 / 3.0, 5e-324, 1.7976931348623157e308, 1e300, -1e-300, 3.0, std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity()}) {
    request.seconds = x;
    EXPECT_EQ(back().seconds, x);
  }
  request.seconds = -0.0;
  EXPECT_TRUE(std::signbit(*back().seconds));
  request.seconds = std::nan("");
  EXPECT_TRUE(std::isnan(*back().seconds));
  Plan plan;
  plan.video_sigmas = {0.1f, 1e-45f, 3.4028235e38f, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(through(plan).video_sigmas, plan.video_sigmas);
}

TEST(WorkerCodec, NumbersBeyondTheirLimits) {
  const json document = json::parse(encode_message(filled<Plan>()));
  const auto with = [&](const char* field, const std::string& number) {
    json changed = document;
    changed[field] = "HERE";
    std::string text = changed.dump();
    text.replace(text.find("\"HERE\""), 6, number);
    return text;
  };
  for (const char* number : {"2147483648", "-2147483649", "1e3", "1.5", "18446744073709551615", "99999999999999999999", "true", "\"1\""})
    EXPECT_NE(problem<Plan>(with("width", number)).find("'width'"), std::string::npos) << number;
  for (const char* number : {"-1", "18446744073709551616", "0.0"})
    EXPECT_NE(problem<Plan>(with("seed", number)).find("'seed'"), std::string::npos) << number;
  json error = json::parse(encode_message(FailedMessage{}));
  for (const int code : {0, -1, 10, 129, 131}) {
    error["error"]["code"] = code;
    EXPECT_NE(problem<FailedMessage>(error.dump()).find("'error.code' is none of the possible values"), std::string::npos) << code;
  }
}

}  // namespace
}  // namespace tritium
