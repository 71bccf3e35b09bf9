#!/usr/bin/env bash
# scripts/check-includes.sh finds every kind of forbidden include in a tree of its own, and lets the allowed ones pass.
set -euo pipefail
check=$1/scripts/check-includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0 cases=0

# expect ok|bad FILE TEXT: a tree that holds only FILE with TEXT
expect() {
  local wanted=$1 file=$2 text=$3 got=ok output
  rm -rf "$tree/src" "$tree/include"
  mkdir -p "$tree/src" "$tree/$(dirname "$file")"
  printf '%b\n' "$text" > "$tree/$file"
  output=$("$check" "$tree" 2>&1) || got=bad
  cases=$((cases + 1))
  if [ "$got" = "$wanted" ] && { [ "$wanted" = ok ] || [[ "$output" == "$file"* ]]; }; then return; fi
  failures=$((failures + 1))
  printf 'FAILED: %s with %s: wanted %s, got %s: %s\n' "$file" "$text" "$wanted" "$got" "$output"
}

# Downward, within a folder, the standard library, other libraries.
expect ok  src/base/a.cpp '#include "base/b.h"'
expect ok  src/base/a.cpp '#include <vector>\n#include <fmt/format.h>\n#include <tritium/result.h>'
expect ok  src/weights/a.cpp '#include "base/b.h"'
expect ok  src/ops/a.cpp '#include "kernels/cpu/b.h"\n#include "device/c.h"'
expect ok  src/model/dit/a.cpp '#include "model/dit/b.h"\n#include "model/geometry/c.h"\n#include "ops/d.h"'
expect ok  src/sampler/a.cpp '#include "model/geometry/c.h"'
expect ok  src/pipeline/a.cpp '#include "model/dit/b.h"\n#include "sampler/c.h"\n#include "media/d.h"'
expect ok  src/cli/a.cpp '#include "server/http/b.h"\n#include "pipeline/c.h"'
expect ok  src/server/openai/a.cpp '#include "server/http/b.h"\n#include "job/c.h"'
expect ok  src/server/server.cpp '#include "server/openai/b.h"\n#include "server/comfy/c.h"'

# Upward.
expect bad src/base/a.cpp '#include "weights/b.h"'
expect bad src/weights/a.h '#include "ops/b.h"'
expect bad src/kernels/cpu/a.cpp '#include "ops/b.h"'
expect bad src/ops/a.cpp '#include "model/dit/b.h"'
expect bad src/ops/a.cpp '#include "model/geometry/b.h"'
expect bad src/media/a.cpp '#include "pipeline/b.h"'
expect bad src/pipeline/a.cpp '#include "job/b.h"'
expect bad src/pipeline/a.cpp '#include "cli/b.h"'
expect bad src/job/a.cpp '#include "server/http/b.h"'
expect bad src/server/http/a.cpp '#include "cli/b.h"'

# Sideways.
expect bad src/kernels/cpu/a.cpp '#include "device/b.h"'
expect bad src/sampler/a.cpp '#include "model/dit/b.h"'
expect bad src/media/a.cpp '#include "sampler/b.h"'
expect bad src/model/dit/a.cpp '#include "model/text/b.h"'
expect bad src/model/dit/a.cpp '#include "model/b.h"'
expect bad src/model/geometry/a.cpp '#include "model/dit/b.h"'
expect bad src/server/openai/a.cpp '#include "server/comfy/b.h"'
expect bad src/server/http/a.cpp '#include "server/native/b.h"'

# Libraries in their place.
for folder in device ops kernels/cpu model/dit; do expect ok "src/$folder/a.cpp" '#include <ggml.h>\n#include <ggml-backend.h>'; done
expect bad src/pipeline/a.cpp '#include <ggml.h>'
expect ok  src/weights/ggml_types.cpp '#include <ggml.h>'
expect bad src/weights/ggml_types.h '#include <ggml.h>'
expect bad src/weights/a.cpp '#include <ggml.h>'
expect bad src/weights/a.cpp '#include "gguf.h"'
expect ok  src/fetch/a.cpp '#include <curl/curl.h>\n#include "weights/b.h"'
expect bad src/cli/a.cpp '#include <curl/curl.h>'
expect bad src/weights/a.cpp '#include "fetch/b.h"'
expect bad src/cli/a.cpp '#include <ggml-backend.h>'
expect ok  src/media/a.cpp 'extern "C" {\n#include <libavcodec/avcodec.h>\n#include <libswscale/swscale.h>\n}'
expect bad src/pipeline/a.cpp '#include <libavutil/frame.h>'
expect bad src/cli/a.cpp '#include <libswresample/swresample.h>'
expect ok  src/job/store_sqlite.cpp '#include <sqlite3.h>'
expect bad src/job/worker.cpp '#include <sqlite3.h>'
expect ok  src/job/store_postgres.cpp '#include <libpq-fe.h>'
expect bad src/job/store_sqlite.cpp '#include <libpq-fe.h>'

# Public headers.
expect ok  include/tritium/a.h '#include <tritium/result.h>\n#include <string>\n#include <cstdint>'
expect bad include/tritium/a.h '#include "base/files.h"'
expect bad include/tritium/a.h '#include <base/files.h>'
expect bad include/tritium/a.h '#include <nlohmann/json.hpp>'
expect bad include/tritium/a.h '#include <ggml.h>'
expect bad include/tritium/a.h '#include <unistd.h>'

# Forms: spaces, quotes, relative paths, macros, comments, unknown folders, the second of two lines.
expect bad src/base/a.cpp '  #  include   "ops/b.h"  // reason'
expect bad src/base/a.cpp '#include"ops/b.h"'
expect bad src/base/a.cpp '#include <ops/b.h>'
expect bad src/ops/a.cpp '#include <base/b.h>'
expect bad src/base/a.cpp '#include "b.h"'
expect bad src/base/a.cpp '#include "../ops/b.h"'
expect bad src/base/a.cpp '#include OPS_HEADER'
expect ok  src/base/a.cpp '// #include "ops/b.h"'
expect ok  src/base/a.cpp '/* text\n#include "ops/b.h"\n*/\n#include "base/c.h"'
expect bad src/base/a.cpp '/* text */ #include "ops/b.h"'
expect bad src/base/a.cpp '/* text\n*/\n#include "ops/b.h"'
expect bad src/extra/a.cpp '#include <vector>'
expect bad src/loose.cpp '#include <vector>'
expect bad src/base/a.cpp '#include <vector>\n#include "ops/b.h"'
expect bad src/base/a.hpp '#include "ops/b.h"'
expect bad 'src/base/with space.cpp' '#include "ops/b.h"'

# A tree without sources is a mistake of the caller, not a success.
rm -rf "${tree:?}/src" "${tree:?}/include"
if "$check" "$tree" 2>/dev/null; then echo "FAILED: an empty tree passes"; failures=$((failures + 1)); fi

echo "check-includes: $cases cases, $failures failed"
[ "$failures" -eq 0 ]
