#pragma once

#include <csignal>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// The signals that the launcher hears, from now on and for all attempts of a job: blocked, so that each waits to be
/// taken. Those that were ignored when the launcher started stay ignored.
class Signals {
 public:
  /// Call while this process has one thread. Throws LaunchError.
  Signals();

  /// Readable when there is a signal.
  int descriptor() const { return waiting_.get(); }
  /// Takes one; 0: there is none.
  int next() const;
  /// Takes one that tells to stop, the others stay; 0: there is none.
  int next_to_stop() const;

  static bool tells_to_stop(int signal);

 private:
  sigset_t to_stop_{};
  Descriptor waiting_;
};

}  // namespace rondo::detail
