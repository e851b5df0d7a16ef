#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace rondo::bench {

/// One line on a terminal that says how far the run is; nothing anywhere else.
///
/// Under a launcher standard error is a pipe: then `path` names the terminal that rondo-bench was started from.
class ProgressBar {
 public:
  /// On standard error if that is a terminal, else on the terminal at `path`, if there is one.
  explicit ProgressBar(const std::string& path);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// `share` (0 to 1) of the run is done; `label` is what runs now. Cheap when called often.
  void show(double share, const std::string& label);
  /// Makes room for a line of results.
  void erase();

 private:
  int terminal_ = -1;
  bool owned_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// "[#########             ]  41%  64K"
std::string bar_text(double share, const std::string& label);

/// Path of the terminal behind standard error; empty if there is none.
std::string terminal_path();

}  // namespace rondo::bench
