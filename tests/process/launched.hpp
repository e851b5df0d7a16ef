#pragma once

#include <sys/types.h>

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "transport/descriptor.hpp"

namespace rondo::test {

/// Nothing here takes as long unless it hangs.
inline constexpr std::chrono::seconds kDeadline{SANITIZED ? 240 : 60};

/// Watches a process that this one did not start, by a descriptor: its number may be another's later.
class Watched {
 public:
  explicit Watched(pid_t pid);
  bool gone_within(std::chrono::milliseconds time) const;

 private:
  detail::Descriptor process_;
};

/// rondo-run, started by a test, with pipes on its standard descriptors.
class Launched {
 public:
  struct Ended {
    int status;  ///< as a shell gives it: 128 + signal when it was killed
    std::string out, err;
  };

  /// `launcher` are the words before rondo-run's own ("unshare", ...), found in PATH.
  explicit Launched(std::vector<std::string> arguments, std::vector<std::string> launcher = {});
  /// Kills it when it is still there.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int signal) const;
  void type(std::string_view text) const;
  void end_input() { input_.reset(); }
  void close_output() { output_.reset(); }

  /// Reads until this text is in what came on standard output (error); returns all of that so far. Throws at the
  /// deadline.
  const std::string& wait_for_output(std::string_view text) { return wait_for(output_, out_, text); }
  const std::string& wait_for_error(std::string_view text) { return wait_for(error_, err_, text); }
  /// The whole number behind this text, once its line has come.
  pid_t number_after(std::string_view text);

  /// Without a reader; false at the deadline.
  bool ends_by_itself() const;
  /// Reads all output until both pipes end, then reaps it. Throws at the deadline.
  Ended wait();

 private:
  const std::string& wait_for(const detail::Descriptor& pipe, std::string& text, std::string_view wanted);
  /// False at the end of both pipes.
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  detail::Descriptor input_, output_, error_;
  std::string out_, err_;
};

/// Runs it to its end, with nothing on standard input.
Launched::Ended launch(std::vector<std::string> arguments);

/// `launch` of this many ranks of the actor (rank_actor.cpp).
std::vector<std::string> actors(int ranks, std::initializer_list<std::string> options,
                                std::initializer_list<std::string> act);

/// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

/// A directory that goes with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The seconds in "SIGKILL, N s after the first signal" of a summary.
double seconds_until_kill(const std::string& summary);

std::string file_text(const std::string& path);

}  // namespace rondo::test
