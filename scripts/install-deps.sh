#!/usr/bin/env bash
# Installs what building and testing Tritium needs, with apt, on Debian 12 and 13. Idempotent; root only for apt.
#
#   scripts/install-deps.sh            install everything that is missing (build, run, test)
#   scripts/install-deps.sh --list     print the package names and exit
#
# ggml is packaged from Debian 13's backports on. On Debian 12 the suites of Debian 13 are added with a low priority and
# a handful of runtime libraries (glibc, libstdc++) are taken from there: nothing is removed, the compiler stays.
# To avoid that, set TRITIUM_GGML_SOURCE to a ggml source tree: it is then compiled with Tritium, no suite is added and
# the oneDNN of Debian 12 (too old) is left out. docs/building.md tells the rest.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache pkg-config git
  libavcodec-dev libavformat-dev libavutil-dev libswscale-dev libswresample-dev
  nlohmann-json3-dev libcli11-dev libfmt-dev libutf8proc-dev libssl-dev libcurl4-openssl-dev zlib1g-dev
  libpng-dev libjpeg-dev libwebp-dev libboost-dev libsqlite3-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev ffmpeg clang libclang-rt-dev chromium)

sources_file=/etc/apt/sources.list.d/tritium.sources
preferences_file=/etc/apt/preferences.d/tritium

say() { printf '%s\n' "$*" >&2; }
die() { say "install-deps: $*"; exit 1; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
version_before() { dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" lt "$2"; }

# Whether apt's configuration names a suite, by code name or as written in the sources.
suite_configured() {
  # shellcheck disable=SC2016  # apt expands these
  apt-get indextargets --format '$(RELEASE) $(CODENAME)' 'Created-By: Packages' 'Component: main' 2>/dev/null | tr ' ' '\n' | grep -x "$1" >/dev/null
}

# What this machine is. Once base-files comes from Debian 13, /etc/os-release of a Debian 12 machine says 13: our own
# preferences file, only ever written on Debian 12, then tells.
debian() {
  if [ -e "$preferences_file" ] && suite_configured bookworm; then echo bookworm; return; fi
  # shellcheck disable=SC1091
  (. /etc/os-release 2>/dev/null && printf '%s' "${VERSION_CODENAME:-}") || true
}
codename=$(debian)

if [ -z "${TRITIUM_GGML_SOURCE:-}" ]; then
  # With them a software graphics device and devices of other processes, which the tests use.
  packages+=(libggml-dev libggml0-backend-vulkan libggml0-backend-rpc mesa-vulkan-drivers libdnnl-dev)
elif [ "$codename" != bookworm ]; then
  packages+=(libdnnl-dev)
fi
# For building the page and testing it in a browser. Packages of Node.js from elsewhere bring npm along and exclude Debian's.
if ! command -v npm >/dev/null; then packages+=(nodejs npm); fi
if [ "${1:-}" = "--list" ]; then printf '%s\n' "${packages[@]}"; exit 0; fi
[ $# -eq 0 ] || { say "usage: scripts/install-deps.sh [--list]"; exit 2; }

command -v apt-get >/dev/null ||
  die "this script needs Debian's apt; docs/building.md lists what to install on other systems."

find_missing() {
  missing=()
  local p
  for p in "${packages[@]}"; do
    # Debian 12 has a libdnnl-dev too, whose interface is too old.
    if ! installed "$p" || { [ "$p" = libdnnl-dev ] && version_before libdnnl-dev 3; }; then missing+=("$p"); fi
  done
}
find_missing
if [ ${#missing[@]} -eq 0 ]; then say "Dependencies: all installed."; exit 0; fi
say "Dependencies to install: ${missing[*]}"

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "packages are missing, and this user is not root and has no sudo. Install them as root, or run scripts/install-deps.sh as root once."
  sudo=(sudo)
  say "They are installed through sudo, which may ask for your password."
fi
as_root() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@"; }
# Waits for another package manager (a fresh machine updates itself), asks nothing, keeps changed configuration files.
apt_get() {
  as_root apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" </dev/null
}
# A broken third-party source is no reason to stop: what matters is whether the packages can be installed.
apt_update() { apt_get update || say "install-deps: some package lists could not be refreshed (see above); going on."; }
apt_install() { apt_get install -y --no-install-recommends --no-remove "$@"; }

wanted() { [[ " ${missing[*]} " == *" $1 "* ]]; }

# The address apt has a suite's main archive from; empty while its lists are not there.
archive_of() {
  # shellcheck disable=SC2016  # apt expands it
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $1" 'Component: main' | awk '!/^cdrom:/ && !found++'
}

# Adds those of the suites that apt does not know yet, from where this machine already gets Debian: no server name is written down here.
add_suites() {
  local uri suite new=()
  for suite in "$@"; do suite_configured "$suite" || new+=("$suite"); done
  if [ ${#new[@]} -eq 0 ]; then return; fi
  uri=$(archive_of "$codename")
  [ -n "$uri" ] || die "apt's configuration names no Debian archive for $codename; see docs/building.md."
  say "Adding ${new[*]} ($sources_file)."
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$uri" "${new[*]}" | as_root tee "$sources_file" >/dev/null
  apt_update
  for suite in "${new[@]}"; do
    if [ -z "$(archive_of "$suite")" ]; then
      as_root rm -f "$sources_file"
      die "$uri did not deliver $suite; $sources_file was removed again."
    fi
  done
}

# Everything stays with Debian 12 but what cannot: ":any" takes the 32-bit twins along on machines that have them.
prefer_debian_12() {
  as_root tee "$preferences_file" >/dev/null <<'PREFERENCES'
Package: *
Pin: release n=trixie
Pin-Priority: 100

Package: *
Pin: release n=trixie-backports
Pin-Priority: 100

Package: src:glibc:any base-files gcc-14-base:any libstdc++6:any libgcc-s1:any libgomp1:any libdnnl-dev libdnnl3.6 dpkg-dev libdpkg-perl
Pin: release n=trixie
Pin-Priority: 600
PREFERENCES
}

apt_update
if wanted libggml-dev || { wanted libdnnl-dev && [ "$codename" = bookworm ]; }; then
  case "$codename" in
    bookworm)
      say "Debian 12: ggml and oneDNN come from Debian 13, whose suites are added at low priority ($preferences_file)."
      say "           glibc, libstdc++ and their relatives are upgraded from there; /etc/os-release will then say 13."
      say "           Set TRITIUM_GGML_SOURCE=DIR to build ggml from a source tree instead."
      prefer_debian_12
      add_suites trixie trixie-backports ;;
    trixie) add_suites trixie-backports ;;
    *) say "'${codename:-this system}' is not Debian 12 (bookworm) or 13 (trixie): trying its own packages." ;;
  esac
fi
apt_install "${missing[@]}" || die "apt could not install them; its message is above. docs/building.md describes other ways."
find_missing
[ ${#missing[@]} -eq 0 ] || die "still missing or too old after installing: ${missing[*]}"
say "Dependencies: ready."
