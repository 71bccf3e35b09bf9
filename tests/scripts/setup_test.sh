#!/usr/bin/env bash
# scripts/install-deps.sh against a package manager of our own that only takes notes, and the choice of build jobs.
# shellcheck disable=SC2015,SC1091  # "fail" never fails itself
set -euo pipefail
root=$1
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
failures=0

fail() { failures=$((failures + 1)); printf 'FAILED: %s\n' "$*"; }

# A PATH with our stand-ins and nothing of the machine's that could change it. Everything in $box/installed is installed.
bin=$box/bin
mkdir "$bin"
for tool in bash sh cat grep tr awk env rm; do ln -s "$(command -v "$tool")" "$bin/$tool"; done
stand_in() { cat > "$bin/$1"; chmod +x "$bin/$1"; }
stand_in dpkg-query <<STAND_IN
#!/bin/bash
package=\${!#}
grep -qx "\$package" $box/installed || exit 1
case "\$*" in *Version*) cat $box/version ;; *) printf installed ;; esac
STAND_IN
stand_in dpkg <<'STAND_IN'
#!/bin/bash
[ "$1 $3" = "--compare-versions lt" ] && [ "${2%%.*}" -lt "$4" ]
STAND_IN
stand_in apt-get <<STAND_IN
#!/bin/bash
if [ "\$1" = indextargets ]; then printf 'archive:\nbookworm bookworm\ntrixie trixie\ntrixie-backports trixie-backports\n'; exit; fi
echo "apt-get \$*" >> $box/calls
case "\$*" in *" install "*)
  [ ! -e $box/broken ] || exit 100
  for word in "\$@"; do echo "\$word" >> $box/installed; done
  echo 3.7.2 > $box/version ;;
esac
STAND_IN
stand_in tee <<STAND_IN
#!/bin/bash
echo "tee \$*" >> $box/calls
cat > $box/written
STAND_IN
stand_in id <<'STAND_IN'
#!/bin/bash
echo "${TEST_UID:-1000}"
STAND_IN
with_sudo() {
  stand_in sudo <<STAND_IN
#!/bin/bash
echo "sudo" >> $box/calls
exec "\$@"
STAND_IN
}
reset() { : > "$box/calls"; : > "$box/installed"; echo 3.7.2 > "$box/version"; rm -f "$bin/sudo" "$box/broken"; }
install_deps() { status=0; output=$(PATH=$bin bash "$root/scripts/install-deps.sh" "$@" 2>&1) || status=$?; }
list() { PATH=$bin bash "$root/scripts/install-deps.sh" --list; }

# Everything is there: no root, no apt, success.
reset
list > "$box/installed"
install_deps
[ $status -eq 0 ] && [[ "$output" == *"all installed"* ]] && [ ! -s "$box/calls" ] || fail "all installed: $status $output"

# Something is missing and there is no way to become root: the packages are named.
reset
list | grep -v '^cmake$' > "$box/installed"
install_deps
[ $status -eq 1 ] && [[ "$output" == *cmake* ]] && [ ! -s "$box/calls" ] || fail "neither root nor sudo: $status $output"

# An ordinary user: only the missing package, through sudo, without removing anything or asking.
with_sudo
install_deps
[ $status -eq 0 ] || fail "one package through sudo: $status $output"
grep -q '^apt-get .*install -y .*--no-remove cmake$' "$box/calls" || fail "one package through sudo: $(cat "$box/calls")"
[ "$(grep -c '^sudo$' "$box/calls")" = "$(grep -c '^apt-get ' "$box/calls")" ] || fail "every apt call goes through sudo"
: > "$box/calls"
install_deps
[ $status -eq 0 ] && [ ! -s "$box/calls" ] || fail "the second run changes nothing: $(cat "$box/calls")"

# Root needs no sudo; a fresh machine gets everything.
reset
TEST_UID=0 install_deps
[ $status -eq 0 ] && grep -q 'install -y .*build-essential.* libggml-dev' "$box/calls" || fail "root on a fresh machine: $status $output"

# The oneDNN of Debian 12 counts as missing; one that cannot be replaced is reported.
reset
list > "$box/installed"
echo 2.6.3-1 > "$box/version"
TEST_UID=0 install_deps
[ $status -eq 0 ] && grep -q -- '--no-remove libdnnl-dev$' "$box/calls" || fail "old oneDNN: $status $output"

# apt fails: so do we, with a pointer.
reset
touch "$box/broken"
TEST_UID=0 install_deps
[ $status -eq 1 ] && [[ "$output" == *docs/building.md* ]] || fail "apt fails: $status $output"

# With a ggml source tree neither the package nor its backends are wanted; nonsense is a usage error.
for package in libggml-dev libggml0-backend-vulkan libggml0-backend-rpc mesa-vulkan-drivers; do
  list | grep -x "$package" >/dev/null || fail "--list names $package"
  if TRITIUM_GGML_SOURCE=/ggml list | grep -x "$package" >/dev/null; then fail "TRITIUM_GGML_SOURCE still wants $package"; fi
done

# Where npm is there, whoever brought it, neither it nor Node.js is wanted.
for package in nodejs npm; do list | grep -x "$package" >/dev/null || fail "--list names $package"; done
stand_in npm < /dev/null
for package in nodejs npm; do if list | grep -x "$package" >/dev/null; then fail "npm is there, but $package is wanted"; fi; done
rm "$bin/npm"

install_deps --nonsense
[ $status -eq 2 ] || fail "usage: $status"

# One job a core, 2 GiB each, never none.
jobs_for() {
  (
    . "$root/scripts/common.sh"
    trap - EXIT
    build_jobs "$@"
  )
}
gib=$((1024 * 1024 * 1024))
[ "$(jobs_for 2 $((24 * gib)))" = 2 ] || fail "2 cores, 24 GiB"
[ "$(jobs_for 8 $((8 * gib)))" = 4 ] || fail "8 cores, 8 GiB"
[ "$(jobs_for 2 $((3 * gib)))" = 1 ] || fail "2 cores, 3 GiB"
[ "$(jobs_for 4 0)" = 1 ] || fail "no memory to speak of"

echo "setup: $failures failed"
[ "$failures" -eq 0 ]
