#!/usr/bin/env bash
# The calls of the model's official scripts for SGLang, at a size the demonstration model is quick at.
#
#   sglang.sh URL FOLDER      FOLDER holds first.png and last.png
set -euo pipefail
url=$1 folder=$2
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }
fail() { echo "sglang: $*"; exit 1; }

# submit BODY: the id of the video
submit() {
  curl --fail-with-body --silent --show-error --request POST --url "$url/v1/videos" --header 'Content-Type: application/json' \
    --data-binary "$1" | field id
}
# download ID FILE: once its status is completed
download() {
  for _ in $(seq 600); do
    status=$(curl --fail-with-body --silent --show-error --request GET --url "$url/v1/videos/$1" | field status)
    case $status in completed) break ;; queued | in_progress) sleep 0.1 ;; *) fail "the status of $1 is '$status'" ;; esac
  done
  curl --fail-with-body --silent --show-error --request GET --url "$url/v1/videos/$1/content" --output "$2"
  [ "$(head -c 8 "$2" | tail -c 4)" = ftyp ] || fail "$2 is no MP4"
}

video_id=$(submit '{
  "task": "t2va",
  "prompt": "a red circle moves to the right on a blue background with a low tone",
  "conditions": [
  ],
  "target": {
    "short_edge": 96,
    "aspect_ratio": "16:9",
    "duration_seconds": 1
  },
  "seed": 0, "num_inference_steps": 2
}')
[ -n "$video_id" ] || fail "no id"
code=$(curl --silent --output "$folder/early.json" --write-out '%{http_code}' "$url/v1/videos/nobody/content")
[ "$code" = 404 ] || fail "the content of nobody has the status $code"
grep -q '"detail":"' "$folder/early.json" || fail "no detail in $(cat "$folder/early.json")"
download "$video_id" "$folder/t2va.mp4"
size=$(ffprobe -v error -select_streams v -show_entries stream=width,height -of csv=p=0:s=x "$folder/t2va.mp4")
[ "$size" = 160x96 ] || fail "16:9 at 96 gave $size"

last=$(base64 -w 0 "$folder/last.png")
video_id=$(submit '{
  "task": "fl2va",
  "prompt": "For the target video, at the end, <Picture 1> is fully referenced.",
  "conditions": [
    {"type": "image", "uri": "data:image/png;base64,'"$last"'", "role": "keyframe", "frame_index": -1}
  ],
  "target": {"short_edge": 96, "aspect_ratio": "auto", "duration_seconds": 1},
  "seed": 0, "num_inference_steps": 2
}')
[ -n "$video_id" ] || fail "no id for fl2va"
download "$video_id" "$folder/fl2va.mp4"

# The demonstration model is not the one for references: said before anything is queued.
code=$(curl --silent --output "$folder/ref2va.json" --write-out '%{http_code}' --url "$url/v1/videos" --header 'Content-Type: application/json' \
  --data-binary '{"task": "ref2va", "prompt": "x", "conditions": [{"type": "image", "uri": "data:image/png;base64,'"$last"'", "role": "reference"}],
  "target": {"short_edge": 96, "aspect_ratio": "auto", "duration_seconds": 1}}')
[ "$code" = 400 ] || fail "references gave the status $code: $(cat "$folder/ref2va.json")"
grep -q Ref2VA "$folder/ref2va.json" || fail "the answer does not name the model that is needed: $(cat "$folder/ref2va.json")"

code=$(curl --silent --output "$folder/list.json" --write-out '%{http_code}' "$url/v1/videos?limit=100&order=asc")
[ "$code" = 200 ] && grep -q '"object":"list"' "$folder/list.json" || fail "the list has the status $code"
deleted=$(curl --fail-with-body --silent --show-error --request DELETE --url "$url/v1/videos/$video_id")
[ "$(printf '%s' "$deleted" | field status)" = deleted ] || fail "deleting gave $deleted"
echo "sglang: ok"
