#!/usr/bin/env bash
# The built page in web/dist belongs to the sources in web/: their hash is recorded in it. Needs no node.
#
#   tests/web/check_dist.sh SOURCE_TREE
set -euo pipefail
cd "$1/web"
# As vite.config.ts does it.
hash=$({ printf '%s\n' index.html package.json package-lock.json tsconfig.json vite.config.ts; find src -type f; } |
  LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum | cut -d ' ' -f 1)
recorded=$(cat dist/sources.sha256)
if [ "$hash" != "$recorded" ]; then
  echo "web/dist was built from other sources (recorded $recorded, now $hash)." >&2
  echo "Build the page again and commit web/dist with the change: cd web && npm ci && npm run build" >&2
  exit 1
fi
size=$(find dist -type f ! -name sources.sha256 -exec gzip -c {} + | wc -c)
if [ "$size" -gt $((150 * 1024)) ]; then
  echo "web/dist has $size bytes after gzip; allowed are $((150 * 1024))." >&2
  exit 1
fi
echo "web/dist is what the sources give; $size bytes after gzip."
