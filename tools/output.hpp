#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>

#include "tools/line_reader.hpp"
#include "tools/writer.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Brings what the ranks print to the launcher's standard output and error, line by line, and to a file per rank.
///
/// When the reader of the launcher's output is slow, ranks wait in their own writes, as they would without a launcher;
/// when it is gone (`| head`), they get SIGPIPE, likewise.
class Output {
 public:
  static constexpr std::size_t kLastLines = 20;
  static constexpr std::size_t kLastLineBytes = 1024;

  struct Style {
    bool prefix = true;
    std::string directory;  ///< for a file per rank; empty: none
    int attempt = 0;
  };

  /// Throws LaunchError when the directory or a file cannot be made.
  Output(asio::io_context& context, const Style& style, int size);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Starts the threads that write.
  void start();

  /// Our ends of a rank's pipes. After start().
  void add(int rank, Descriptor output, Descriptor error);

  /// A line of the launcher itself, on standard error.
  void note(std::string_view line);

  /// Once no rank is left: reads and writes what remains, then calls `done` on the loop.
  void finish(std::function<void()> done);

  /// The end of what the rank wrote to standard error.
  const std::deque<std::string>& last_lines(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].last_lines;
  }

  /// What went wrong with the launcher's own output, other than that its reader is gone; empty: nothing.
  std::string failure() const;

  /// Whether the ranks lost their reader because the launcher failed to write, which ends those that write on.
  bool failed_ranks() const;

 private:
  enum Stream { kOut, kErr };

  /// Where lines go. `open_line` is who left its last line without an end: another's line must not be glued to it.
  struct Target {
    std::unique_ptr<Writer> writer;
    bool coloured = false;
    const LineReader* open_line = nullptr;
  };
  struct Rank {
    std::array<std::unique_ptr<LineReader>, 2> streams;
    std::deque<std::string> last_lines;
    Descriptor file;
    const LineReader* open_line = nullptr;
  };

  Target& target(Stream stream) { return *targets_[stream]; }
  void take(int rank, Stream stream, std::string_view lines);
  void to_terminal(int rank, Stream stream, std::string_view lines);
  void to_file(Rank& rank, const LineReader* source, std::string_view lines);
  static void remember(Rank& rank, std::string_view lines);
  /// errno of the write that failed, other than that the reader is gone.
  int write_error(Stream stream) const;
  void changed();
  void check_finished();

  asio::io_context& context_;
  const Style style_;
  std::array<std::shared_ptr<Target>, 2> targets_;  ///< none before start(); one and the same where both go to one file
  std::vector<Rank> ranks_;
  std::function<void()> done_;
  std::string file_failure_;
};

}  // namespace rondo::detail
