#!/bin/sh
# kernel_symbols.sh NM LIBRARY...: each library of reduction kernels defines its table, and nothing else that a linker
# could take for what another object means by that name.
set -eu
nm=$1
shift
for library in "$@"; do
  name=${library##*reduction_kernels_}
  wanted="rondo::detail::${name%.a}_kernels"
  defined=$("$nm" --defined-only --extern-only --demangle --format=posix "$library" | sed -n 's/ [A-Za-z] .*//p')
  if [ "$defined" != "$wanted" ]; then
    printf '%s defines:\n%s\nwanted: %s\n' "$library" "$defined" "$wanted"
    exit 1
  fi
done
