# shellcheck shell=bash
# Shared by ./quickstart and ./check: named steps, how much of the machine to use, configure and build. Sourced, not run.

program=$(basename "$0")
source_tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
current_step=

# step TEXT: announces what starts now; if the script ends early, this name is in the last line.
step() {
  current_step=$*
  printf '\n== %s\n' "$current_step" >&2
}

report_failure() {
  local status=$?
  if [ "$status" -ne 0 ] && [ -n "$current_step" ]; then
    printf '\n%s: failed at "%s" (exit status %d).\n' "$program" "$current_step" "$status" >&2
  fi
}
trap report_failure EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Bytes that may still be used: free memory, or what a container's limit leaves if that is less. File cache counts as free.
usable_memory() {
  local group=/sys/fs/cgroup version=memory.max used=memory.current
  if [ ! -r $group/$version ]; then group=/sys/fs/cgroup/memory version=memory.limit_in_bytes used=memory.usage_in_bytes; fi
  {
    cat /proc/meminfo
    local file
    for file in "$version" "$used"; do printf '%s %s\n' "$file" "$(cat "$group/$file" 2>/dev/null)"; done
    cat $group/memory.stat 2>/dev/null || true
  } | awk -v limit_name="$version" -v used_name="$used" '
    $1 == "MemAvailable:" { room = $2 * 1024 }
    $1 == limit_name && $2 ~ /^[0-9]+$/ { limit = $2; limited = 1 }
    $1 == used_name { used = $2 }
    $1 == "inactive_file" || $1 == "total_inactive_file" { cache = $2 }
    END { if (limited && limit - used + cache < room) room = limit - used + cache; printf "%.0f\n", (room > 0 ? room : 0) }'
}

# build_jobs CORES BYTES: one job a core, but 2 GiB for each, and at least one.
build_jobs() {
  local by_memory=$(($2 / (2 * 1024 * 1024 * 1024)))
  local jobs=$1
  if [ "$by_memory" -lt "$jobs" ]; then jobs=$by_memory; fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  echo "$jobs"
}

install_dependencies() {
  step "installing dependencies"
  scripts/install-deps.sh
}

# configure PRESET
configure() {
  step "configuring build/$1"
  cmake --preset "$1" ${TRITIUM_GGML_SOURCE:+"-DTRITIUM_GGML_SOURCE=$TRITIUM_GGML_SOURCE"}
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  step "building build/$preset with $jobs jobs"
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
}

# folder_of NAME: the absolute path of the folder that the environment variable NAME holds, as seen from the caller's folder.
folder_of() {
  realpath -e "${!1}/." 2>/dev/null || { echo "$program: $1 names no folder: ${!1}" >&2; return 2; }
}

# Called first: changes to the source tree and finds out what this machine and this build folder are like.
enter_source_tree() {
  local name value
  for name in TRITIUM_GGML_SOURCE TRITIUM_GOLDEN; do
    if [ -z "${!name:-}" ]; then continue; fi
    value=$(folder_of "$name") || exit 2
    export "$name=$value"
  done
  cd "$source_tree" || exit 2
  # A ggml source tree that was chosen when the folder was configured by hand still counts.
  if [ -z "${TRITIUM_GGML_SOURCE:-}" ] && [ -f build/release/CMakeCache.txt ]; then
    value=$(sed -n 's/^TRITIUM_GGML_SOURCE:PATH=//p' build/release/CMakeCache.txt)
    if [ -n "$value" ]; then export "TRITIUM_GGML_SOURCE=$value"; fi
  fi
  jobs=$(build_jobs "$(nproc)" "$(usable_memory)")
}
