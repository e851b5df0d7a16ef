#pragma once

#include <string>

namespace rondo::detail {

/// The line of --version: what was built in, and what of CUDA is found on this machine now.
std::string version_text();

}  // namespace rondo::detail
