#include "bench/probe/part.hpp"

#include <unistd.h>

#include <stdexcept>

namespace rondo::bench {

void Part::report(const Figure& figure) const {
  const std::string line = to_line(figure) + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("nobody hears the probe's figures");
  }
}

std::vector<std::size_t> Part::sizes(std::size_t first, std::size_t last) const {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = first; bytes <= last; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

}  // namespace rondo::bench
