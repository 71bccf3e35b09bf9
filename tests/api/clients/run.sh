#!/usr/bin/env bash
# Programs of others, unchanged, against the built server with the demonstration model: OpenAI's SDK for Node, a ComfyUI client, and the
# calls of SGLang's, vLLM-Omni's and MiniMax's examples.
#
#   tests/api/clients/run.sh TRITIUM_BINARY OUTPUT_FOLDER
#
# Exits with 77 (skipped) and a reason where node, npm or curl are missing.
set -euo pipefail
tritium=$1 output=$2
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "Skipped: $*"; exit 77; }

for tool in node npm; do command -v "$tool" >/dev/null || skip "$tool is not installed (scripts/install-deps.sh installs it)."; done
command -v curl >/dev/null || skip "curl is not installed."
version=$(node --version)
major=${version#v} major=${major%%.*}
[ "$major" -ge 18 ] || skip "node $version is older than 18."

# The packages as the lock file says; only when that has changed.
stamp=$here/node_modules/.installed-for
if [ "$(cat "$stamp" 2>/dev/null)" != "$(sha256sum < "$here/package-lock.json")" ]; then
  (cd "$here" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline) || skip "OpenAI's SDK could not be downloaded; npm's message is above."
  sha256sum < "$here/package-lock.json" > "$stamp"
fi

rm -rf "$output"
mkdir -p "$output/data"
log=$output/server.log
"$tritium" serve --port 0 --data "$output/data" --device CPU 2> "$log" &
server=$!
stop() {
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
}
trap stop EXIT
for _ in $(seq 600); do
  grep -q 'listening at' "$log" && break
  kill -0 "$server" 2>/dev/null || { cat "$log"; echo "the server has ended"; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/.*listening at \([^,]*\), .*/\1/p' "$log")
[ -n "$url" ] || { cat "$log"; echo "the server does not say where it listens"; exit 1; }

ffmpeg -hide_banner -loglevel error -y -f lavfi -i color=red:s=96x96 -frames:v 1 "$output/first.png"
ffmpeg -hide_banner -loglevel error -y -f lavfi -i color=blue:s=96x96 -frames:v 1 "$output/last.png"

failed=no
for client in "node $here/openai.mjs" "bash $here/sglang.sh" "bash $here/vllm_omni.sh" "node $here/comfy.mjs" "bash $here/minimax.sh"; do
  echo "== $client"
  if ! $client "$url" "$output"; then echo "FAILED: $client"; failed=yes; fi
done
"$tritium" status --data "$output/data" || failed=yes
"$tritium" stop --data "$output/data" || failed=yes
wait "$server" || { echo "the server ended with status $?"; failed=yes; }
trap - EXIT
if [ "$failed" = yes ]; then cat "$log"; exit 1; fi
