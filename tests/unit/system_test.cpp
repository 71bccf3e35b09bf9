// Memory as the process may use it, and files mapped into it.
#include "base/system.h"

#include "base/file_mapping.h"
#include "support/build.h"
#include "unit/temp_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace tritium {
namespace {

std::uint64_t locked_bytes() {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line))
    if (line.starts_with("VmLck:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

TEST(HostMemory, IsThereAndCounted) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.total, std::uint64_t{64} << 20);
  EXPECT_LE(memory.available, memory.total);
  const std::uint64_t before = own_anonymous_bytes();
  constexpr std::size_t kMore = std::size_t{64} << 20;
  const std::vector<char> filled(kMore, 1);
  EXPECT_GE(own_anonymous_bytes() + (std::uint64_t{4} << 20), before + kMore) << filled.back();
}

// A limit of the process itself, set in a child: it cannot be raised again.
TEST(HostMemory, TheProcesssOwnLimitsCount) {
  if (test::sanitizer_holds_memory()) GTEST_SKIP() << "AddressSanitizer does not start within a limit";
  const auto limited = [] {
    const rlimit limit{std::uint64_t{3} << 40, std::uint64_t{3} << 40};  // more than there is: nothing changes
    const std::uint64_t total = host_memory().total;
    if (setrlimit(RLIMIT_DATA, &limit) != 0 || host_memory().total != total) std::_Exit(1);
    const rlimit small{total / 2, total / 2};
    if (setrlimit(RLIMIT_DATA, &small) != 0) std::_Exit(2);
    std::_Exit(host_memory().total == total / 2 && host_memory().available <= total / 2 ? 0 : 3);
  };
  EXPECT_EXIT(limited(), ::testing::ExitedWithCode(0), "");
}

TEST(FileMapping, PinnedPagesAreLockedUntilItGoes) {
  if (test::sanitizer_holds_memory()) GTEST_SKIP() << "AddressSanitizer locks no memory";
  const test::TempFolder folder;
  const auto path = folder.path() / "weights";
  constexpr std::uint64_t kBytes = 8 * 4096;
  std::ofstream(path) << std::string(kBytes, 'x');
  const std::uint64_t before = locked_bytes();
  {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    auto mapping = FileMapping::create(fd, path, kBytes);
    ::close(fd);
    ASSERT_TRUE(mapping.ok()) << mapping.error().text();
    const auto pinned = mapping->pin(100, 3 * 4096);
    if (!pinned.ok()) {  // a limit below four pages
      EXPECT_EQ(pinned.error().code, ErrorCode::does_not_fit);
      EXPECT_EQ(pinned.error().field, "pin");
      EXPECT_NE(pinned.error().text().find("ulimit -l"), std::string::npos);
      return;
    }
    EXPECT_GE(locked_bytes(), before + 3 * 4096);
  }
  EXPECT_EQ(locked_bytes(), before);
}

}  // namespace
}  // namespace tritium
