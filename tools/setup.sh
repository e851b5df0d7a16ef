# shellcheck shell=bash disable=SC2034
# What quickstart and test share: packages and build folders. Sourced by bash with the tree as the working directory.

build_packages=(g++ meson ninja-build pkgconf libasio-dev libfmt-dev libssl-dev libcli11-dev nlohmann-json3-dev)
plot_packages=(gnuplot-nox)
test_packages=(catch2 clang lld libclang-rt-dev clang-format clang-tidy cmake)

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Installs the Debian packages that are missing among the arguments. Silent when there is nothing to do.
need_packages() {
  local package missing=() as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian system: taking it that these (by their names in Debian) are installed: $*"
    return
  fi
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "packages are missing, and neither root nor sudo is at hand. As root, run:
  apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# build FOLDER [MESON OPTION...]: configures where needed and builds; returns the status. CXX chooses the compiler.
build() {
  local folder=$1
  shift
  say "building $folder ($*)"
  # A folder from another version of Meson, or of a tree that has moved, is started afresh.
  if [[ ! -f $folder/build.ninja ]] || ! meson setup --reconfigure "$folder" "$@" >/dev/null 2>&1; then
    rm -rf "$folder"
    meson setup "$folder" "$@" || return
  fi
  ninja -C "$folder"
}
