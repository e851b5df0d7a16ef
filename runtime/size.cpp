#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "transport/printable.hpp"

namespace rondo {
namespace {

constexpr std::string_view kUnits = "KMGT";

/// Bits to shift for "K", "KB", "KiB" and so on; -1 for what is no unit.
int shift_of(std::string_view unit) {
  if (unit.empty()) return 0;
  const char letter = unit[0] >= 'a' && unit[0] <= 'z' ? static_cast<char>(unit[0] - 'a' + 'A') : unit[0];
  const std::string_view rest = unit.substr(1);
  const auto place = kUnits.find(letter);
  if (place == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) return -1;
  return 10 * (static_cast<int>(place) + 1);
}

}  // namespace

std::size_t parse_size(std::string_view text) {
  std::size_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const int shift = shift_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (failed == std::errc::result_out_of_range ||
      (failed == std::errc{} && shift >= 0 && number > (std::numeric_limits<std::size_t>::max() >> shift))) {
    throw Error(Errc::invalid_argument,
                fmt::format("got \"{}\", wanted less than 2^64 bytes", detail::printable(text, 64)));
  }
  if (failed != std::errc{} || shift < 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("got \"{}\", wanted a whole number like 4096, 64K, 4M, 1G", detail::printable(text, 64)));
  }
  return number << shift;
}

std::string format_size(std::size_t bytes) {
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, kUnits[unit - 1]);
}

}  // namespace rondo
