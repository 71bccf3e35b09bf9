// The same over TLS, with a certificate made for the test.
#include "api/client.h"
#include "api/toy_server.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace {

using namespace tritium;
using namespace tritium::test;

struct Identity {
  std::filesystem::path certificate, key;
};

Identity make_identity(const TempFolder& folder) {
  const Identity out{folder.path() / "certificate.pem", folder.path() / "key.pem"};
  EVP_PKEY* key = ::EVP_EC_gen("P-256");
  X509* certificate = ::X509_new();
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), 0);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate), 3600);
  ::X509_set_pubkey(certificate, key);
  X509_NAME* name = ::X509_get_subject_name(certificate);
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  ::X509_set_issuer_name(certificate, name);
  EXPECT_GT(::X509_sign(certificate, key, ::EVP_sha256()), 0);
  FILE* file = std::fopen(out.certificate.c_str(), "w");
  ::PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(out.key.c_str(), "w");
  ::PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  ::X509_free(certificate);
  ::EVP_PKEY_free(key);
  return out;
}

// A connection with TLS on top of Client's socket.
class TlsClient {
 public:
  explicit TlsClient(int port, long max_version = 0)
      : client_(port), context_(::SSL_CTX_new(::TLS_client_method())), ssl_(::SSL_new(context_)) {
    if (max_version != 0) ::SSL_set_max_proto_version(ssl_, static_cast<int>(max_version));
    ::SSL_set_fd(ssl_, client_.descriptor());
    connected_ = ::SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    ::SSL_free(ssl_);
    ::SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;
  [[nodiscard]] bool connected() const { return connected_; }
  void send(const std::string& text) {
    EXPECT_EQ(::SSL_write(ssl_, text.data(), static_cast<int>(text.size())), static_cast<int>(text.size()));
  }
  std::string read_to_end() {
    std::string out;
    char piece[16384];
    int count = 0;
    while ((count = ::SSL_read(ssl_, piece, sizeof piece)) > 0) out.append(piece, static_cast<std::size_t>(count));
    clean_end_ = ::SSL_get_error(ssl_, count) == SSL_ERROR_ZERO_RETURN;
    return out;
  }
  [[nodiscard]] bool clean_end() const { return clean_end_; }

 private:
  Client client_;
  SSL_CTX* context_;
  SSL* ssl_;
  bool connected_ = false, clean_end_ = false;
};

class TlsServer {
 public:
  TlsServer() : identity_(make_identity(folder_)), toy_(options()) {}
  ToyServer& toy() { return toy_; }

 private:
  http::ServerOptions options() const {
    http::ServerOptions out;
    out.certificate = identity_.certificate;
    out.private_key = identity_.key;
    out.limits.header_seconds = 2;
    out.limits.body_bytes = 1 << 20;
    return out;
  }
  TempFolder folder_;
  Identity identity_;
  ToyServer toy_;
};

const char* const kClose = "Connection: close\r\n";

TEST(Tls, AnswersFilesStreamsAndErrorsAsWithoutIt) {
  TlsServer server;
  EXPECT_TRUE(server.toy().server().url().starts_with("https://"));
  const int port = server.toy().port();
  const auto get = [&](const std::string& text) {
    TlsClient client(port);
    EXPECT_TRUE(client.connected());
    client.send(text);
    const std::string answer = client.read_to_end();
    EXPECT_TRUE(client.clean_end());
    return answer;
  };
  EXPECT_TRUE(get(request_text("GET", "/health", kClose)).ends_with("\r\n\r\nwell"));
  EXPECT_TRUE(get(request_text("GET", "/file") + request_text("GET", "/file", kClose)).ends_with("\r\n\r\n" + server.toy().clip()));
  EXPECT_TRUE(get(request_text("GET", "/big", kClose)).ends_with(std::string(1 << 20, 'b')));
  EXPECT_NE(get(request_text("GET", "/count", kClose)).find("data: 2\n\n"), std::string::npos);
  EXPECT_TRUE(get(request_text("POST", "/echo", kClose, std::string(200'000, 'x'))).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("rubbish\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

TEST(Tls, ABodyThatIsTooLargeIsRefusedWhileItIsSent) {
  TlsServer server;
  TlsClient client(server.toy().port());
  client.send(request_text("POST", "/echo", "", std::string((1 << 20) + 1, 'x')));
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 413 "));
}

TEST(Tls, OthersAreTurnedAway) {
  TlsServer server;
  Client plain(server.toy().port());
  plain.send(request_text("GET", "/health"));
  EXPECT_EQ(plain.read_answer().status, 0);
  const TlsClient old(server.toy().port(), TLS1_1_VERSION);
  EXPECT_FALSE(old.connected());
  Client silent(server.toy().port());
  EXPECT_TRUE(silent.ended());  // the handshake has its time limit
  EXPECT_TRUE(eventually([&] { return server.toy().server().counters().connections == 0; }));
  TlsClient good(server.toy().port());
  good.send(request_text("GET", "/health", kClose));
  EXPECT_TRUE(good.read_to_end().ends_with("well"));
}

}  // namespace
