#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "transport/descriptor.hpp"

namespace rondo::testing {

/// Another process with a driver of its own (actor.cpp), to which the test speaks in lines. Started by exec: CUDA does
/// not survive a fork.
class Child {
 public:
  struct Ended {
    int status;  ///< as a shell gives it: 128 + signal when it was killed
    std::string error;
  };

  /// `variables`: "NAME=VALUE", besides those of this process.
  explicit Child(std::vector<std::string> arguments, const std::vector<std::string>& variables = {});
  /// Kills it when it is still there.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void say(const std::string& line) const;
  /// Its next line. Throws std::runtime_error, with its standard error, when there is none.
  std::string hear();
  void kill() const;
  /// Ends its input, and waits until it has ended.
  Ended wait();

 private:
  pid_t pid_ = -1;
  detail::Descriptor input_, output_, error_;
};

}  // namespace rondo::testing
