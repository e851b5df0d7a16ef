#include "runtime/hub_thread.hpp"

#include <sys/socket.h>

#include <cerrno>

#include <asio/post.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/quiet_thread.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

constexpr auto kLastWords = std::chrono::milliseconds(200);
// How long ranks that are still on their way to a meeting that has failed can hear why.
constexpr auto kLateComers = std::chrono::seconds(1);

}  // namespace

HubThread::HubThread(Hub::Job job, Log log)
    : hub_(context_, std::move(job), std::move(log)), work_(context_.get_executor()) {}

Descriptor HubThread::start() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    throw Error(Errc::system, fmt::format("cannot make a socket pair: {}", system_text(errno)));
  }
  Descriptor mine(pair[0]);
  hub_.adopt(pair[1], 0);
  thread_ = quiet_thread([this] { run(); });
  return mine;
}

void HubThread::run() noexcept {
  context_.run();
  context_.restart();
  const auto late = std::chrono::steady_clock::now() + kLateComers;
  while (hub_.failed_early() && context_.run_one_until(late) != 0) {
  }
  context_.restart();
  // Rank 0's own goodbye may lie in its socket still: the others shall hear of it.
  context_.poll();
  context_.restart();
  hub_.close();
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  while (!hub_.closed() && context_.run_one_until(until) != 0) {
  }
}

HubThread::~HubThread() {
  if (!thread_.joinable()) return;
  asio::post(context_, [this] { context_.stop(); });
  thread_.join();
}

}  // namespace rondo::detail
