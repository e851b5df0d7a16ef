#pragma once

/// Catch2 as version 3 spells it, also where only version 2 is installed. Catch::Approx, the matchers
/// Catch::Matchers::{ContainsSubstring, StartsWith, EndsWith, WithinAbs, WithinRel} and all macros that both have.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <string>

#include <catch2/catch.hpp>

namespace Catch {
using Detail::Approx;
namespace Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Matchers
}  // namespace Catch
#endif
