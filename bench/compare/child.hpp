#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rondo::bench {

/// A program to start.
struct Command {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> environment;  ///< set besides what this process has

  /// As one would type it.
  std::string text() const;
};

/// A program that runs in a process group of its own while this process reads, line by line, what it prints on standard
/// output and error. All that it started ends with it: this process adopts orphans, and ends whatever children it has
/// got since when the Child ends, so a process has one Child at a time and makes no other children meanwhile.
class Child {
 public:
  enum class Read { line, end, late };

  /// Throws std::system_error.
  explicit Child(const Command& command);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Ends what still runs: SIGTERM first, SIGKILL two seconds later.
  ~Child();

  /// The next line; `late` if none came within `seconds`, `end` if none will come.
  Read next_line(std::string& line, double seconds);

  /// Waits for the end, at most `seconds`, then ends it. The exit status, or 128 + signal.
  int finish(double seconds);

 private:
  bool exited_within(double seconds);
  void end_descendants();

  std::set<pid_t> others_;  ///< that this process had before, as after an exec in a shell
  pid_t pid_ = -1;
  int output_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  std::string pending_;
};

struct Outcome {
  int status = 0;      ///< exit status, or 128 + signal
  std::string output;  ///< standard output and error
};

/// Runs a program to its end, or ends it when nothing came for `seconds`.
Outcome run_program(const Command& command, double seconds);

}  // namespace rondo::bench
