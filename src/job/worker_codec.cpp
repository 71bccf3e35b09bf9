#include "job/worker_codec.h"

#include "job/codec_json.h"

namespace tritium {

template <class T>
std::string encode_message(const T& message) {
  return codec::Encoder::value(message).dump();
}

template <class T>
Result<T> decode_message(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return Error{ErrorCode::failure, "a message between worker and caller cannot be understood: " + why, "", ""};
  };
  const auto document = codec::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return refuse("it is no JSON");
  T out;
  codec::Decoder decoder(/*strict=*/true);
  decoder.read(document, out);
  if (!decoder.problem().empty()) return refuse(decoder.problem());
  return out;
}

#define TRITIUM_MESSAGE(T)                       \
  template std::string encode_message(const T&); \
  template Result<T> decode_message(std::string_view);

TRITIUM_MESSAGE(HelloMessage)
TRITIUM_MESSAGE(OpenMessage)
TRITIUM_MESSAGE(OpenedMessage)
TRITIUM_MESSAGE(PlanMessage)
TRITIUM_MESSAGE(GenerateMessage)
TRITIUM_MESSAGE(Plan)
TRITIUM_MESSAGE(Progress)
TRITIUM_MESSAGE(Artifact)
TRITIUM_MESSAGE(FailedMessage)

}  // namespace tritium
