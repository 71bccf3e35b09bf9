#!/usr/bin/env bash
# What a weight format costs on the demonstration model: the share of its evaluation prompts whose clips show and sound like what was asked
# for, with the whole model converted to the format. One line a format, as docs/convert.md has them.
#
#   bench/format_quality.sh BUILD [FORMAT...]      BUILD: a build folder with tests, such as build/release
set -euo pipefail
build=$(realpath "$1")
shift
formats=("$@")
if [ ${#formats[@]} -eq 0 ]; then formats=(bf16 q8_0 int8-convrot int8 fp8 q5_k q4_k w4a8 q4_0 nf4 pruned); fi
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '| %-14s | %-10s | %-6s | %-6s | %-6s | %-6s | %-6s |\n' format background colour motion pan pitch shape
for format in "${formats[@]}"; do
  if [ "$format" = pruned ]; then options=(--to bf16 --prune=8); else options=(--to "$format"); fi
  "$build/src/cli/tritium" convert models/demo "$work/$format" "${options[@]}" --progress none > "$work/convert.log" 2>&1 || { cat "$work/convert.log" >&2; exit 1; }
  TRITIUM_DEMO_MODEL=$work/$format "$build/tests/e2e/e2e_demo_quality" --gtest_filter='DemoQuality.*' > "$work/quality.log" 2>&1 || true
  awk -v format="$format" '
    / of / && $1 ~ /^(bg|color|motion|pan|pitch|shape)$/ { share[$1] = $5 }
    END { printf "| %-14s | %-10s | %-6s | %-6s | %-6s | %-6s | %-6s |\n", format, share["bg"], share["color"], share["motion"], share["pan"], share["pitch"], share["shape"] }' "$work/quality.log"
done
