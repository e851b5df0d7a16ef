#include "runtime/log.hpp"

#include <unistd.h>

#include <fmt/format.h>

namespace rondo::detail {

Log::Log(LogLevel level, int rank, Sink sink)
    : level_(level), prefix_(rank < 0 ? "rondo: " : fmt::format("rondo: rank {}: ", rank)), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view text) const {
  std::string line = prefix_ + printable(text, 2000);
  // What an error that is quoted says of its own rank has been said.
  for (std::size_t at = line.find(prefix_, 1); at != std::string::npos; at = line.find(prefix_, at))
    line.erase(at, prefix_.size());
  if (sink_) return sink_(level, line);
  line += '\n';
  // One write, so that the lines of many ranks stay whole; there is nobody to tell that stderr is gone.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace rondo::detail
