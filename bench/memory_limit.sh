#!/usr/bin/env bash
# A model of real width within 3 GB: streams, stays below the limit, and gives the latents of the resident run bit for bit.
#
#   bench/memory_limit.sh TRITIUM [FOLDER]   TRITIUM: the program; FOLDER: for 11 GB of synthetic weights, default a temporary one
#
# The limit is a cgroup's where one can be made (root, version 1 or 2), and the budget of the command line in any case.
set -euo pipefail
tritium=$(realpath "$1")
folder=${2:-$(mktemp -d)}
mkdir -p "$folder"
if [ ! -d "$folder/model" ]; then
  "$tritium" synth "$folder/model" --preset released --part dit text --format int8-convrot --pruned --layers 12 --text-layers 8 --vocabulary 709 --progress none
fi
run() {
  local name=$1
  shift
  /usr/bin/time -f "$name: %e s, peak %M KiB" "$tritium" generate "a red circle moves" --dit "$folder"/model/diffusion_models/*.safetensors \
    --text-encoder "$folder"/model/text_encoders/*.safetensors --width 96 --height 96 --frames 22 --steps 2 --seed 3 --cache-dir none \
    --latents "$folder/$name.safetensors" -o "$folder/$name.mp4" --progress none "$@" 2>&1 | tail -1
}
run resident
for budget in 3 2.3 2.09; do
  run "budget-$budget" --memory-budget "$budget"
  cmp "$folder/resident.safetensors" "$folder/budget-$budget.safetensors" && echo "  the same latents"
done
TRITIUM_POISON=1 run poisoned --memory-budget 2.09
cmp "$folder/resident.safetensors" "$folder/poisoned.safetensors" && echo "  the same latents"
for group in /sys/fs/cgroup/memory/tritium_limit /sys/fs/cgroup/tritium_limit; do
  if [ ! -e "$(dirname "$group")/cgroup.procs" ] || ! mkdir -p "$group" 2>/dev/null; then continue; fi
  limit=memory.max peak=memory.peak
  if [ -e "$group/memory.limit_in_bytes" ]; then limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes; fi
  [ -e "$group/$limit" ] || continue
  echo $((3 << 30)) >"$group/$limit"
  (
    echo "$BASHPID" >"$group/cgroup.procs"
    run cgroup
  )
  cmp "$folder/resident.safetensors" "$folder/cgroup.safetensors" && echo "  the same latents; most the group used: $(cat "$group/$peak") bytes"
  rmdir "$group"
  break
done
