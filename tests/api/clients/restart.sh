#!/usr/bin/env bash
# Jobs of ComfyUI's and MiniMax's clients survive kill -9 of the server: they are listed afterwards, in a true state, and finish.
#
#   tests/api/clients/restart.sh TRITIUM_BINARY OUTPUT_FOLDER
#
# Exits with 77 (skipped) and a reason where curl is missing.
set -euo pipefail
tritium=$1 output=$2
command -v curl >/dev/null || { echo "Skipped: curl is not installed."; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$output"
mkdir -p "$output"
server=
fail() { echo "restart: $*"; cat "$output"/server*.log; exit 1; }
trap 'kill -9 $server 2>/dev/null || true' EXIT

# start LOG: sets server and url
start() {
  "$tritium" serve --port 0 --data "$output/data" --device CPU 2> "$1" &
  server=$!
  for _ in $(seq 600); do
    grep -q 'listening at' "$1" && break
    kill -0 "$server" 2>/dev/null || fail "the server has ended"
    sleep 0.1
  done
  url=$(sed -n 's/.*listening at \([^,]*\), .*/\1/p' "$1")
  [ -n "$url" ] || fail "the server does not say where it listens"
}
get() { curl --fail-with-body --silent --show-error "$url$1"; }
post() { curl --fail-with-body --silent --show-error --header 'Content-Type: application/json' --data-binary "$2" "$url$1"; }

start "$output/server1.log"
id=123e4567-e89b-12d3-a456-426614174000
long=123e4567-e89b-12d3-a456-426614174001
# Long enough to be running when the server dies.
prompt=$(sed 's/"steps": 2/"steps": 150/' "$here/../data/comfy_ksampler.json")
post /prompt "{\"prompt\": $prompt, \"prompt_id\": \"$long\"}" > /dev/null
post /prompt "{\"prompt\": $(cat "$here/../data/comfy_ksampler.json"), \"prompt_id\": \"$id\"}" > /dev/null
task=$(post /v2/video_generation '{"model": "MiniMax-H3", "content": [{"type": "text", "text": "waves"}], "ratio": "1:1", "duration": 4}' |
  sed -n 's/.*"task_id":"\([^"]*\)".*/\1/p')
for _ in $(seq 600); do get "/api/jobs/$long" | grep -q '"status":"in_progress"' && break; sleep 0.05; done
get "/api/jobs/$long" | grep -q '"status":"in_progress"' || fail "the first job does not run"
kill -9 "$server"
wait "$server" 2>/dev/null || true

start "$output/server2.log"
queue=$(get /queue)
for each in "$long" "$id"; do echo "$queue" | grep -q "$each" || get "/history/$each" | grep -q '"success"' || fail "$each is lost: $queue"; done
case $(get "/v2/query/video_generation/$task" | sed -n 's/.*"status":"\([^"]*\)".*/\1/p') in
  queued | running | succeeded) ;;
  *) fail "the task is $(get "/v2/query/video_generation/$task")" ;;
esac
code=$(curl --silent --output "$output/again.json" --write-out '%{http_code}' --data-binary "{\"prompt\": $prompt, \"prompt_id\": \"$id\"}" "$url/prompt")
[ "$code" = 409 ] || fail "the same id again has the status $code"
for _ in $(seq 1200); do
  done=yes
  for each in "$long" "$id"; do get "/history/$each" | grep -q '"success"' || done=no; done
  get "/v2/query/video_generation/$task" | grep -q '"status":"succeeded"' || done=no
  [ "$done" = yes ] && break
  sleep 0.1
done
[ "$done" = yes ] || fail "not everything is finished: $(get /api/jobs) $(get "/v2/query/video_generation/$task")"
link=$(get "/v2/query/video_generation/$task" | sed -n 's/.*"url":"\([^"]*\)".*/\1/p')
curl --fail --silent --show-error --output "$output/clip.mp4" "$link"
[ "$(head -c 8 "$output/clip.mp4" | tail -c 4)" = ftyp ] || fail "no MP4 at $link"
kill "$server"
wait "$server" || fail "the server ended with status $?"
echo "restart: three jobs finished after kill -9"
