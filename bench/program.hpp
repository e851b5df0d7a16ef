#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo::bench {

/// Path of an executable file called `name` in one of the folders of PATH.
std::optional<std::string> find_on_path(const std::string& name);

/// Path of the running program.
std::string own_path();

/// Path of a program that comes with this one: in the same folder, where it is installed; or, in a build tree, in one
/// of the folders given, relative to it. Then PATH.
std::optional<std::string> find_companion(const std::string& name, const std::vector<std::string>& folders);

}  // namespace rondo::bench
