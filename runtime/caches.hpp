#pragma once

#include <cstddef>
#include <string>

namespace rondo::detail {

/// Bytes that the last caches hold which so many cores have between them at the most: all of one, or one each where
/// they lie apart. `cpus` is where the system tells of its cores; a cache of which it tells nothing is taken to hold
/// 32 MiB for all.
std::size_t last_cache_bytes(int cores, const std::string& cpus = "/sys/devices/system/cpu");

}  // namespace rondo::detail
