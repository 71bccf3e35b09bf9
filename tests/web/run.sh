#!/usr/bin/env bash
# Checks the page's types, builds it and compares the result with web/dist, then uses it in a browser.
#
#   tests/web/run.sh SOURCE_TREE OUTPUT_FOLDER [TRITIUM_BINARY]
#
# Screenshots and reports go to OUTPUT_FOLDER. Exits with 77 (skipped) and a reason where node, npm or a browser are missing. TRITIUM_CHROMIUM
# names another Chromium than the one in PATH.
set -euo pipefail
source_tree=$1 output=$2
export TRITIUM_BINARY=${3:-}
skip() { echo "Skipped: $*"; exit 77; }

command -v node >/dev/null || skip "node is not installed (scripts/install-deps.sh installs it)."
command -v npm >/dev/null || skip "npm is not installed (scripts/install-deps.sh installs it)."
version=$(node --version)
major=${version#v} major=${major%%.*}
[ "$major" -ge 18 ] || skip "node $version is older than 18."
chromium=${TRITIUM_CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
[ -n "$chromium" ] || skip "chromium is not installed (scripts/install-deps.sh installs it)."
export TRITIUM_CHROMIUM=$chromium PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1

# The packages of a folder, exactly as its lock file says; only when that has changed.
packages() {
  local stamp=$1/node_modules/.installed-for
  if [ "$(cat "$stamp" 2>/dev/null)" = "$(sha256sum < "$1/package-lock.json")" ]; then return; fi
  (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline) ||
    skip "the packages of $1 could not be downloaded; npm's message is above."
  sha256sum < "$1/package-lock.json" > "$stamp"
}
packages "$source_tree/web"
packages "$source_tree/tests/web"
mkdir -p "$output"

cd "$source_tree/web"
node_modules/.bin/tsc --noEmit
node_modules/.bin/vite build --outDir "$output/dist" --emptyOutDir --logLevel warn
if ! diff -r dist "$output/dist" >&2; then
  echo "web/dist is not what the sources give. Build it again and commit it: cd web && npm ci && npm run build" >&2
  exit 1
fi

cd "$source_tree/tests/web"
export TRITIUM_WEB_OUTPUT=$output
exec node_modules/.bin/playwright test
