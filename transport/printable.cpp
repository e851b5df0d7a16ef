#include "transport/printable.hpp"

#include <fmt/format.h>

namespace rondo::detail {

std::string printable(std::string_view text, std::size_t limit) {
  std::string line;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || (byte >= 0x20 && byte != 0x7f && c != '\\')) {
      line += c;
    } else {
      line += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > limit) line += "...";
  return line;
}

}  // namespace rondo::detail
