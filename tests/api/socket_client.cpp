#include "api/socket_client.h"

namespace tritium::test {

std::string upgrade_fields(const std::string& more) {
  return "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
         more;
}

SocketClient::SocketClient(int port, const std::string& target, const std::string& fields, double seconds) : client_(port, seconds) {
  client_.send(request_text("GET", target, fields));
  answer_ = client_.read_head();
}

void SocketClient::send(int opcode, std::string_view payload, bool last) {
  std::string out;
  out += static_cast<char>((last ? 0x80 : 0) | opcode);
  const std::size_t size = payload.size();
  if (size < 126) {
    out += static_cast<char>(0x80 | size);
  } else {
    const int bytes = size < 65536 ? 2 : 8;
    out += static_cast<char>(0x80 | (bytes == 2 ? 126 : 127));
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(size >> (8 * i));
  }
  const std::string mask = "\x11\x22\x33\x44";
  out += mask;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(payload[i] ^ mask[i % 4]);
  client_.send(out);
}

bool SocketClient::need(std::size_t bytes) {
  while (buffer_.size() < bytes) {
    const std::string more = client_.read_some();
    if (more.empty()) return false;
    buffer_ += more;
  }
  return true;
}

Frame SocketClient::receive() {
  Frame out;
  if (!need(2)) return out;
  const auto byte = [this](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(buffer_[i])); };
  std::size_t size = byte(1) & 0x7f, head = 2;
  if (size >= 126) {
    const std::size_t bytes = size == 126 ? 2 : 8;
    if (!need(2 + bytes)) return out;
    size = 0;
    for (std::size_t i = 0; i < bytes; ++i) size = size << 8 | byte(2 + i);
    head += bytes;
  }
  if (!need(head + size)) return out;
  out.opcode = static_cast<int>(byte(0) & 0x0f);
  out.last = (byte(0) & 0x80) != 0;
  out.payload = buffer_.substr(head, size);
  buffer_.erase(0, head + size);
  return out;
}

}  // namespace tritium::test
