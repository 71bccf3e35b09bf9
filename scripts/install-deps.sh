#!/usr/bin/env bash
# Installs what building and testing Tritium needs, with apt, on Debian 12 and 13. Idempotent; root only for apt.
#
#   scripts/install-deps.sh            install everything (build, run, test)
#   scripts/install-deps.sh --list     print the package names and exit
#
# ggml is packaged from Debian 13's backports on. On Debian 12 the suites of Debian 13 are added with a low priority and
# a handful of runtime libraries (glibc, libstdc++) are taken from there: nothing is removed, the compiler stays.
# To avoid that, set TRITIUM_GGML_SOURCE to a ggml source tree: it is then compiled with Tritium, no suite is added and
# oneDNN (too old in Debian 12) is left out.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache pkg-config git
  libavcodec-dev libavformat-dev libavutil-dev libswscale-dev libswresample-dev
  nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libutf8proc-dev libssl-dev zlib1g-dev libpng-dev
  libgtest-dev libgmock-dev libbenchmark-dev ffmpeg clang libclang-rt-dev)
ggml_packages=(libggml-dev libdnnl-dev)

if [ -n "${TRITIUM_GGML_SOURCE:-}" ]; then ggml_packages=(); fi
if [ "${1:-}" = "--list" ]; then printf '%s\n' "${packages[@]}" "${ggml_packages[@]}"; exit 0; fi

say() { printf '%s\n' "$*" >&2; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

command -v dpkg-query >/dev/null || { say "install-deps: this script needs Debian's apt; see docs/building.md for other systems."; exit 1; }

missing=()
for p in "${packages[@]}" "${ggml_packages[@]}"; do installed "$p" || missing+=("$p"); done
# The package named libdnnl-dev also exists in Debian 12, in a version whose interface is too old.
if [ ${#ggml_packages[@]} -gt 0 ] && installed libdnnl-dev &&
   dpkg --compare-versions "$(dpkg-query -W -f='${Version}' libdnnl-dev)" lt 3; then missing+=(libdnnl-dev); fi
if [ ${#missing[@]} -eq 0 ]; then say "Dependencies: all installed."; exit 0; fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { say "install-deps: packages are missing (${missing[*]}) and neither root nor sudo is available."; exit 1; }
  sudo=(sudo)
fi
as_root() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@"; }
apt_install() { as_root apt-get install -y -q --no-install-recommends "$@"; }

codename=$(. /etc/os-release; printf '%s' "${VERSION_CODENAME:-}")
# The name of the running suite can be hidden once base-files comes from the next one; the apt lists still know it.
if apt-get indextargets --format '$(CODENAME)' 'Created-By: Packages' 2>/dev/null | grep -qx bookworm; then codename=bookworm; fi
case "$codename" in
  bookworm|trixie) ;;
  *) say "install-deps: '$codename' is not Debian 12 (bookworm) or 13 (trixie); trying its own packages." ;;
esac

# Where this machine already gets Debian from, so that no server name is written down here.
archive_uri() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $codename" 'Component: main' | head -n 1
}

add_suites() {  # add_suites SUITE... : a sources file of our own beside the machine's
  local uri list=/etc/apt/sources.list.d/tritium.sources
  uri=$(archive_uri); [ -n "$uri" ] || { say "install-deps: cannot tell the Debian archive from apt's configuration."; exit 1; }
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$uri" "$*" | as_root tee "$list" >/dev/null
}

say "Dependencies to install: ${missing[*]}"
if [ ${#ggml_packages[@]} -gt 0 ] && { ! installed libggml-dev || [[ " ${missing[*]} " == *" libdnnl-dev "* ]]; }; then
  as_root apt-get update -q
  case "$codename" in
    bookworm)
      say "Debian 12: adding the Debian 13 suites at low priority (/etc/apt/sources.list.d/tritium.sources, /etc/apt/preferences.d/tritium)."
      say "           glibc, libstdc++ and their relatives are upgraded from there; /etc/os-release will then say 13."
      say "           Set TRITIUM_GGML_SOURCE=DIR to build ggml from a source tree instead."
      add_suites trixie trixie-backports
      as_root tee /etc/apt/preferences.d/tritium >/dev/null <<'PREFERENCES'
Package: *
Pin: release n=trixie
Pin-Priority: 100

Package: *
Pin: release n=trixie-backports
Pin-Priority: 100

Package: src:glibc base-files gcc-14-base libstdc++6 libgcc-s1 libgomp1 libdnnl-dev libdnnl3.6 dpkg-dev libdpkg-perl
Pin: release n=trixie
Pin-Priority: 600
PREFERENCES
      as_root apt-get update -q
      apt_install "${missing[@]}" libggml-dev libdnnl-dev ;;
    trixie)
      apt-get indextargets --format '$(CODENAME)' 'Created-By: Packages' | grep -qx trixie-backports || {
        say "Debian 13: adding trixie-backports (/etc/apt/sources.list.d/tritium.sources)."
        add_suites trixie-backports; as_root apt-get update -q; }
      apt_install "${missing[@]/libggml-dev/libggml-dev/trixie-backports}" ;;
    *) apt_install "${missing[@]}" ;;
  esac
else
  as_root apt-get update -q
  apt_install "${missing[@]}"
fi
say "Dependencies: ready."
