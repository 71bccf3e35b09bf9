#!/usr/bin/env bash
# Checks the direction of includes between the folders of src/ and the headers of include/tritium/ (docs/architecture.md).
#
#   scripts/check-includes.sh [ROOT]   ROOT: the source tree to check, default this one
#
# Prints one line per forbidden include, "file:line: #include <...>: reason", and exits 1; silent and 0 when all is well.
set -euo pipefail
root=${1:-$(dirname "$0")/..}
cd "$root"

# What each folder may include besides itself: what lies below, never up or across. model/geometry is plain arithmetic on shapes.
export layers='
base:
weights:   base
fetch:     base weights
kernels:   base weights
device:    base weights
ops:       base weights kernels device
model:     base weights kernels device ops
doctor:    base weights kernels device ops
sampler:   base weights kernels device ops model/geometry
media:     base weights kernels device ops
pipeline:  base weights fetch kernels device ops doctor model sampler media
job:       base weights fetch kernels device ops doctor model sampler media pipeline
server:    base weights fetch kernels device ops doctor model sampler media pipeline job
cli:       base weights fetch kernels device ops doctor model sampler media pipeline job server
'

# Libraries with a fixed place: a pattern for the header, a pattern for the files that may include it, the rule in words.
export libraries='
^(ggml[a-z-]*|gguf)\.h$          ^src/((device|ops|kernels|model|doctor)/|weights/ggml_types\.cpp$)   ggml headers belong to device, ops, kernels, model, doctor and weights/ggml_types.cpp
^lib(av|sw)[a-z]+/               ^src/media/                            libav headers belong to media
^curl/                           ^src/(fetch|server/input)/              libcurl headers belong to fetch and server/input
^boost/                          ^src/server/http/                       Boost headers belong to server/http
^prometheus/                     ^src/server/metrics/                    Prometheus headers belong to server/metrics
^(sqlite3[a-z]*)\.h$             ^src/job/[^/]*sqlite[^/]*$             SQLite headers belong to the SQLite store in job
^(libpq-fe|libpq-events)\.h$     ^src/job/[^/]*postgres[^/]*$           libpq headers belong to the PostgreSQL store in job
'

folders=()
for folder in src include; do if [ -d "$folder" ]; then folders+=("$folder"); fi; done
[ ${#folders[@]} -gt 0 ] || { echo "check-includes: '$root' has neither src/ nor include/" >&2; exit 2; }

# shellcheck disable=SC2016  # an awk program
program='
function complain(reason) { printf "%s:%d: #include %s: %s\n", file, FNR, shown, reason; bad = 1 }

# The part of model/ or server/ a path lies in ("dit" of "model/dit/block.h"); "" for files directly in it.
function part_of(path, pieces) { return split(path, pieces, "/") > 2 ? pieces[2] : "" }

function check_part(from, to) {
  if (from == to) return
  if (folder == "model" && to != "geometry") complain("parts of model/ share only model/geometry")
  if (folder == "server" && from != "" && to != "" && to != "http" && to != "input" && to != "metrics")
    complain("parts of server/ share only server/http, server/input and server/metrics")
}

function check_project(path, quoted,    target) {
  target = path; sub(/\/.*/, "", target)
  if (!quoted) complain("includes of this project use quotes")
  if (target == folder) { if (folder == "model" || folder == "server") check_part(part, part_of(path)) }
  else if (!((folder SUBSEP target) in allowed) && !((folder SUBSEP target "/" part_of(path)) in allowed))
    complain(folder "/ may not use " target "/")
}

function check_include(header, quoted,    i, first) {
  for (i = 1; i <= library_count; i++)
    if (header ~ lib_header[i] && file !~ lib_place[i]) { complain(lib_rule[i]); return }
  if (is_public) {
    if (header !~ /^tritium\/[a-z0-9_\/]+\.h$/ && (quoted || header !~ /^[a-z0-9_]+$/))
      complain("public headers include only <tritium/...> and the standard library")
    return
  }
  first = header; sub(/\/.*/, "", first)
  if (first in layer && header ~ /\//) check_project(header, quoted)
  else if (quoted) complain("quotes are for this project, as \"folder/file.h\" from src/")
}

BEGIN {
  count = split(ENVIRON["layers"], lines, "\n")
  for (i = 1; i <= count; i++) {
    words = split(lines[i], word, " ")
    if (words == 0) continue
    sub(/:$/, "", word[1]); layer[word[1]] = 1
    for (k = 2; k <= words; k++) allowed[word[1], word[k]] = 1
  }
  count = split(ENVIRON["libraries"], lines, "\n")
  for (i = 1; i <= count; i++) {
    if (split(lines[i], word, " ") == 0) continue
    k = ++library_count; lib_header[k] = word[1]; lib_place[k] = word[2]
    lib_rule[k] = substr(lines[i], index(lines[i], word[2]) + length(word[2])); sub(/^ +/, "", lib_rule[k])
  }
}

FNR == 1 {
  file = FILENAME; in_comment = 0; part = ""
  is_public = file ~ /^include\//
  relative = file; sub(/^src\//, "", relative)
  folder = relative; if (!sub(/\/.*/, "", folder)) folder = ""
  if (folder == "model" || folder == "server") part = part_of(relative)
  if (!is_public && !(folder in layer)) { printf "%s: this folder has no layer in scripts/check-includes.sh\n", file; bad = 1; folder = "?" }
}
folder == "?" { next }

# Block comments that begin their line (licence texts, commented-out code) are passed over.
in_comment { if (!sub(/^.*\*\//, "")) next; in_comment = 0 }
/^[ \t]*\/\*/ { if (!sub(/^[ \t]*\/\*.*\*\//, "")) { in_comment = 1; next } }

/^[ \t]*#[ \t]*include/ {
  text = $0; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", text)
  if (match(text, /^"[^"]+"/)) { shown = substr(text, 1, RLENGTH); check_include(substr(text, 2, RLENGTH - 2), 1) }
  else if (match(text, /^<[^>]+>/)) { shown = substr(text, 1, RLENGTH); check_include(substr(text, 2, RLENGTH - 2), 0) }
  else { shown = text; complain("cannot be checked: name the header itself") }
}

END { exit bad }
'
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.inc' \) \
  -exec awk "$program" {} +
