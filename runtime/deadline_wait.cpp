#include "runtime/deadline_wait.hpp"

#include <asio/steady_timer.hpp>
#include <fmt/format.h>

namespace rondo::detail {

std::string seconds_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return seconds >= 10 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.3g} s", seconds);
}

bool DeadlineWait::ready(int descriptor, asio::posix::stream_descriptor::wait_type type, Time until) {
  asio::posix::stream_descriptor stream(context_, descriptor);
  bool came = false;
  stream.async_wait(type, [&](asio::error_code failed) { came = !failed; });
  context_.restart();
  context_.run_one_until(until);
  if (!came) {
    // The wait refers to this frame: it must have ended before the frame does.
    stream.cancel();
    context_.restart();
    context_.poll();
  }
  stream.release();
  return came;
}

void DeadlineWait::pause(Time until) {
  asio::steady_timer timer(context_, until);
  timer.async_wait([](asio::error_code) {});
  context_.restart();
  context_.run();
}

}  // namespace rondo::detail
