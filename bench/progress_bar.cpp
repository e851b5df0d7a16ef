#include "bench/progress_bar.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace rondo::bench {
namespace {

constexpr std::chrono::milliseconds kRedraw{200};

void put(int terminal, std::string_view text) {
  // A progress bar that cannot be drawn is no reason to stop.
  if (write(terminal, text.data(), text.size()) < 0) return;
}

}  // namespace

ProgressBar::ProgressBar(const std::string& path) {
  if (isatty(STDERR_FILENO) == 1) {
    terminal_ = STDERR_FILENO;
  } else if (!path.empty()) {
    terminal_ = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    owned_ = terminal_ >= 0;
  }
}

ProgressBar::~ProgressBar() {
  erase();
  if (owned_) close(terminal_);
}

void ProgressBar::show(double share, const std::string& label) {
  if (terminal_ < 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kRedraw) return;
  last_ = now;
  drawn_ = true;
  put(terminal_, fmt::format("\r{}\033[K", bar_text(share, label)));
}

void ProgressBar::erase() {
  if (!drawn_) return;
  drawn_ = false;
  last_ = std::chrono::steady_clock::now();
  put(terminal_, "\r\033[K");
}

std::string bar_text(double share, const std::string& label) {
  constexpr std::size_t kWidth = 40;
  const double clamped = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(clamped * kWidth);
  return fmt::format("[{:<40}] {:>3.0f}%  {}", std::string(full, '#'), clamped * 100, label);
}

std::string terminal_path() {
  const char* const path = isatty(STDERR_FILENO) == 1 ? ttyname(STDERR_FILENO) : nullptr;
  return path == nullptr ? "" : path;
}

}  // namespace rondo::bench
