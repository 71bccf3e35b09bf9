#!/usr/bin/env bash
# The calls of vLLM-Omni's recipes for the model, at a size the demonstration model is quick at.
#
#   vllm_omni.sh URL FOLDER      FOLDER holds first.png and last.png
set -euo pipefail
url=$1 folder=$2
api=$url/v1/videos/sync
fail() { echo "vllm-omni: $*"; exit 1; }
is_mp4() { [ "$(head -c 8 "$1" | tail -c 4)" = ftyp ] || fail "$1 is no MP4: $(head -c 300 "$1")"; }

curl -sS -X POST "$api" -D "$folder/headers" \
  -F 'prompt=In a snowy blue-purple forest, Ori carefully walks past a sleeping giant; footsteps crunch in the snow.' \
  -F 'width=160' \
  -F 'height=96' \
  -F 'aspect_ratio=16:9' \
  -F 'fps=24' \
  -F 'num_inference_steps=2' \
  -F 'flow_shift=12' \
  -F 'seed=1101' \
  -F 'extra_params={"task":"t2va","duration":4.0,"audio_flow_shift":3.0}' \
  -o "$folder/vllm_t2va.mp4"
is_mp4 "$folder/vllm_t2va.mp4"
for header in x-stage-durations x-inference-time-s x-peak-memory-mb; do
  grep -qi "^$header: " "$folder/headers" || fail "no header $header in $(cat "$folder/headers")"
done

curl -sS -X POST "$api" \
  -F 'prompt=The subject moves naturally from the first image to the last image.' \
  -F 'num_inference_steps=2' \
  -F 'flow_shift=12' \
  -F 'seed=2102' \
  -F 'extra_params={"task":"fl2va","duration":4.0,"frame_indices":[0,-1],"audio_flow_shift":3.0}' \
  -F "input_references=@$folder/first.png;type=image/png" \
  -F "input_references=@$folder/last.png;type=image/png" \
  -o "$folder/vllm_first_last.mp4"
is_mp4 "$folder/vllm_first_last.mp4"

# Refused as there, with the reason, and the server goes on.
for bad in 'fps=30' 'extra_params={"task":"t2va","duration":3}' 'extra_params={"task":"t2va","duration":16}' 'guidance_scale=4.5'; do
  code=$(curl -sS -o "$folder/bad.json" -w '%{http_code}' -X POST "$url/v1/videos" -F 'prompt=x' -F "$bad")
  [ "$code" = 400 ] || fail "$bad gave the status $code: $(cat "$folder/bad.json")"
done

# Not waiting, and with several clips.
id=$(curl -sS -X POST "$url/v1/videos" -F 'prompt=a red circle' -F num_inference_steps=2 -F num_outputs_per_prompt=2 -F seed=5 |
  sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
for _ in $(seq 600); do
  code=$(curl -sS -o "$folder/second.mp4" -w '%{http_code}' "$url/v1/videos/$id/content?variant=1")
  [ "$code" = 200 ] && break
  sleep 0.1
done
is_mp4 "$folder/second.mp4"
code=$(curl -sS -o "$folder/part" -w '%{http_code}' -H 'Range: bytes=0-99' "$url/v1/videos/$id/content")
[ "$code" = 206 ] && [ "$(wc -c < "$folder/part")" = 100 ] || fail "a range gave the status $code"
curl -sS -X DELETE "$url/v1/videos/$id" -o /dev/null
code=$(curl -sS -o /dev/null -w '%{http_code}' "$url/v1/videos/$id")
[ "$code" = 404 ] || fail "a deleted video has the status $code"
curl -sS "$url/health" | grep -q '"status":"ok"' || fail "/health"
echo "vllm-omni: ok"
