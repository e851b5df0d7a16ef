#!/usr/bin/env bash
# Installs into a folder, moves the folder, and builds and runs a consumer against it through pkg-config and CMake; then
# against the sources as a Meson subproject. Looks at what the library exports and what the public headers mention.
# Arguments: source folder, build folder, prefix and libdir that the build was configured with.
set -euo pipefail
source_dir=$1 build_dir=$2 prefix=$3 libdir=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  printf 'FAILED: %s\n' "$*"
  failed=1
}
# expect_good PROGRAM [ARGUMENT...]: runs two ranks, each of which must call itself good.
expect_good() {
  local output
  output=$(env -u LD_LIBRARY_PATH "$moved/bin/rondo-run" -n 2 --no-prefix -- "$@" 2>&1) || fail "$*: ended badly"
  [[ $(grep -c ': rank [01] of 2, good$' <<<"$output") == 2 ]] || fail "$*: got: $output"
}

DESTDIR=$work/staged meson install -C "$build_dir" --no-rebuild --quiet
moved=$work/moved
mv "$work/staged$prefix" "$moved"
consumer=$source_dir/tests/install/consumer
library=$moved/$libdir/librondo.so

echo '-- what is exported'
exported=$(nm -D --defined-only "$library" | awk '{print $3}')
[[ -n $exported ]] || fail 'nothing is exported'
foreign=$(c++filt <<<"$exported" | grep -vE '^((typeinfo( name)?|vtable|VTT|guard variable|construction vtable) for |(virtual |non-virtual )?thunk to )?([a-z][a-z ]* )?rondo::' || true)
[[ -z $foreign ]] || fail "foreign symbols are exported: $foreign"
private=$(c++filt <<<"$exported" | grep -E '\b(asio|fmt|nlohmann|CLI)::' || true)
[[ -z $private ]] || fail "exported symbols name third parties: $private"

echo '-- what the public headers mention'
mentioned=$(grep -rnE '#include *[<"](asio|openssl|cuda|fmt|CLI|nlohmann)|\b(asio|fmt|nlohmann)::|\b(CUdevice|cudaStream|EVP_|HMAC_)' "$moved/include" || true)
[[ -z $mentioned ]] || fail "public headers mention third parties: $mentioned"
[[ -z $(grep -rlF "$source_dir" "$moved/include" "$moved/$libdir/pkgconfig" "$moved/$libdir/cmake" || true) ]] ||
  fail 'installed files name the source folder'

echo '-- pkg-config'
export PKG_CONFIG_PATH=$moved/$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs rondo)"
c++ -std=c++20 -Wall -Wextra -Werror -O1 "$consumer/main.cpp" -o "$work/by_pkg_config" "${flags[@]}" "-Wl,-rpath,$moved/$libdir"
expect_good "$work/by_pkg_config"
[[ $(pkg-config --modversion rondo) == "$("$moved/bin/rondo-run" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')" ]] ||
  fail 'pkg-config and rondo-run disagree on the version'

echo '-- CMake'
cmake -G Ninja -S "$consumer" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$moved" -DCMAKE_BUILD_TYPE=Debug >"$work/cmake.log" || cat "$work/cmake.log"
cmake --build "$work/by_cmake" >"$work/cmake.log" || cat "$work/cmake.log"
expect_good "$work/by_cmake/consumer_rondo"
expect_good "$work/by_cmake/consumer_static"

echo '-- Meson subproject'
mkdir -p "$work/by_meson/subprojects"
cp "$consumer/meson.build" "$consumer/main.cpp" "$work/by_meson"
ln -s "$source_dir" "$work/by_meson/subprojects/rondo"
PKG_CONFIG_PATH='' meson setup --wrap-mode=forcefallback -Dunity=on -Dunity_size=30 -Ddebug=false -Drondo:cuda=disabled "$work/by_meson/build" "$work/by_meson" >"$work/meson.log" || cat "$work/meson.log"
ninja -C "$work/by_meson/build" consumer >"$work/meson.log" || cat "$work/meson.log"
expect_good "$work/by_meson/build/consumer"

exit "$failed"
