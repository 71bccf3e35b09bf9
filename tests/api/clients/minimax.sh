#!/usr/bin/env bash
# The calls of MiniMax's documentation for this model, with another base address: text to video, a first frame, an uploaded file, the
# older interface.
#
#   minimax.sh URL FOLDER      FOLDER holds first.png
set -euo pipefail
url=$1 folder=$2
MINIMAX_API_KEY=none
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }
fail() { echo "minimax: $*"; exit 1; }

create() {
  curl --fail-with-body --silent --show-error --request POST --url "$url/v2/video_generation" \
    --header "Authorization: Bearer $MINIMAX_API_KEY" --header 'Content-Type: application/json' --data-binary "$1" | field task_id
}
query() {
  curl --fail-with-body --silent --show-error --request GET --url "$url/v2/query/video_generation/$1" --header "Authorization: Bearer $MINIMAX_API_KEY"
}
# download TASK FILE: polls until the task has succeeded, then takes what its link gives, without a key
download() {
  for _ in $(seq 1200); do
    status=$(query "$1" | field status)
    case $status in succeeded) break ;; queued | running) sleep 0.1 ;; *) fail "the status of $1 is '$status': $(query "$1")" ;; esac
  done
  link=$(query "$1" | field url)
  [ -n "$link" ] || fail "no link in $(query "$1")"
  curl --fail --silent --show-error --output "$2" "$link"
  [ "$(head -c 8 "$2" | tail -c 4)" = ftyp ] || fail "$2 is no MP4"
}

task=$(create '{
  "model": "MiniMax-H3",
  "content": [{"type": "text", "text": "a red circle moves to the right on a blue background with a low tone"}],
  "resolution": "768P",
  "duration": 4,
  "ratio": "1:1"
}')
[ -n "$task" ] || fail "no task"
download "$task" "$folder/minimax_text.mp4"

picture=$(base64 < "$folder/first.png" | tr -d '\n')
task=$(create '{
  "model": "MiniMax-H3",
  "content": [
    {"type": "text", "text": "a red square on a blue background"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,'"$picture"'"}, "role": "first_frame"}
  ],
  "resolution": "768P",
  "duration": 4,
  "ratio": "adaptive"
}')
download "$task" "$folder/minimax_frame.mp4"

file=$(curl --fail-with-body --silent --show-error --request POST --url "$url/v1/files/upload" --header "Authorization: Bearer $MINIMAX_API_KEY" \
  --form purpose=video_generation --form "file=@$folder/last.png" | number file_id)
[ -n "$file" ] || fail "no file"
waiting=$(create '{
  "model": "MiniMax-H3",
  "content": [
    {"type": "text", "text": "a blue square"},
    {"type": "image_url", "image_url": {"url": "mm_file://'"$file"'"}, "role": "last_frame"}
  ],
  "duration": 15
}')
[ -n "$waiting" ] || fail "no task with an uploaded file"

# Keyframes beside references, and a text without a ratio, are refused.
code=$(curl --silent --output "$folder/refused.json" --write-out '%{http_code}' --request POST --url "$url/v2/video_generation" \
  --data-binary '{"model": "MiniMax-H3", "content": [{"type": "text", "text": "x"}], "ratio": "adaptive", "duration": 5}')
[ "$code" = 400 ] || fail "adaptive with a text alone has the status $code"
grep -q '"bad_request_error"' "$folder/refused.json" && grep -q '(2013)' "$folder/refused.json" || fail "$(cat "$folder/refused.json")"

curl --fail-with-body --silent --show-error --url "$url/v2/query/video_generation?page_num=1&page_size=2" | grep -q '"total":3' || fail "the list"
# A task that waits is cancelled, one that runs is refused: as fast as this is, both may happen.
code=$(curl --silent --output "$folder/deleted.json" --write-out '%{http_code}' --request DELETE --url "$url/v2/video_generation/$waiting")
[ "$code" = 200 ] || [ "$code" = 400 ] || fail "deleting has the status $code: $(cat "$folder/deleted.json")"
[ "$code" = 200 ] || curl --fail-with-body --silent --show-error --request DELETE --url "$url/v1/videos/$waiting" > /dev/null

task=$(curl --fail-with-body --silent --show-error --request POST --url "$url/v1/video_generation" --header 'Content-Type: application/json' \
  --data-binary '{"model": "MiniMax-H3", "prompt": "a red circle", "duration": 4}' | field task_id)
for _ in $(seq 1200); do
  answer=$(curl --fail-with-body --silent --show-error --url "$url/v1/query/video_generation?task_id=$task")
  case $(echo "$answer" | field status) in Success) break ;; Queueing | Processing) sleep 0.1 ;; *) fail "$answer" ;; esac
done
link=$(curl --fail-with-body --silent --show-error --url "$url/v1/files/retrieve?file_id=$(echo "$answer" | field file_id)" | field download_url)
curl --fail --silent --show-error --output "$folder/minimax_v1.mp4" "$link"
echo "minimax: three videos"
