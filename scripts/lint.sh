#!/usr/bin/env bash
# Advice on format (clang-format) and likely bugs (clang-tidy). Not part of ./check: opinions of tools differ between versions.
#
#   scripts/lint.sh            every source file
#   scripts/lint.sh FILE...    these files
#   scripts/lint.sh --format [FILE...]   format them in place instead
#
# Needs the packages clang-format and clang-tidy, and a configured build/release. Exits with 1 when there is something to say.
set -euo pipefail
cd "$(dirname "$0")/.."

format=no
if [ "${1:-}" = --format ]; then format=yes; shift; fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then mapfile -t files < <(find src include tests bench -type f \( -name '*.h' -o -name '*.cpp' \) | sort); fi

for tool in clang-format clang-tidy; do
  command -v "$tool" >/dev/null || { echo "lint: $tool is missing; apt-get install $tool" >&2; exit 2; }
done
if [ "$format" = yes ]; then clang-format -i "${files[@]}"; exit 0; fi
[ -f build/release/compile_commands.json ] || { echo "lint: configure first: cmake --preset release" >&2; exit 2; }

status=0
for file in "${files[@]}"; do
  clang-format --dry-run -Werror "$file" 2>/dev/null || { echo "$file: clang-format would change it"; status=1; }
done

sources=()
for file in "${files[@]}"; do if [[ "$file" == *.cpp && "$file" != tests/fuzz/* ]]; then sources+=("$file"); fi; done
if [ ${#sources[@]} -gt 0 ]; then
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet --warnings-as-errors='*' 2>&1 |
    sed -E '/^[0-9]+ warnings? (generated|treated)/d' || status=1
fi
exit $status
