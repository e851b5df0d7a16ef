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

  /// For as long as it lives, those that tell to stop do to the launcher what they do to any process: where it may wait
  /// for a reader that does not read.
  class Unheard {
   public:
    explicit Unheard(const Signals& signals);
    ~Unheard();
    Unheard(const Unheard&) = delete;
    Unheard& operator=(const Unheard&) = delete;

   private:
    const Signals& signals_;
  };

 private:
  sigset_t to_stop_{};
  Descriptor waiting_;
};

}  // namespace rondo::detail
