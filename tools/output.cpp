#include "tools/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "tools/process.hpp"

namespace rondo::detail {
namespace {

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool wants_colour(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && std::getenv("NO_COLOR") == nullptr &&
         !(term != nullptr && std::string_view(term) == "dumb");
}

std::string prefix_of(int rank, bool coloured) {
  constexpr int kFirstColour = 31, kColours = 6;  // red to cyan, as terminals number them
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\033[{}m[{}]\033[0m ", kFirstColour + rank % kColours, rank);
}

/// Calls `each(line)`, the line without its end.
template <class Each>
void for_each_line(std::string_view lines, Each each) {
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    each(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
}

Descriptor open_rank_file(const std::string& directory, int attempt, int rank) {
  const std::string name =
      attempt == 0 ? fmt::format("rank-{}.log", rank) : fmt::format("rank-{}.attempt-{}.log", rank, attempt);
  const std::filesystem::path path = std::filesystem::path(directory) / name;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw_errno(fmt::format("--output-dir: cannot write {}", path.string()));
  return file;
}

}  // namespace

Output::Output(asio::io_context& context, const Style& style, int size)
    : context_(context), style_(style), ranks_(static_cast<std::size_t>(size)) {
  if (!style_.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(style_.directory, error);
    if (error) throw LaunchError(fmt::format("--output-dir: cannot make {}: {}", style_.directory, error.message()));
    for (int rank = 0; rank < size; ++rank) {
      ranks_[static_cast<std::size_t>(rank)].file = open_rank_file(style_.directory, style_.attempt, rank);
    }
  }
}

void Output::start() {
  const auto make_target = [this](int fd) {
    auto target = std::make_shared<Target>();
    target->writer = std::make_unique<Writer>(context_, fd, [this] { changed(); });
    target->coloured = style_.prefix && wants_colour(fd);
    return target;
  };
  targets_[kOut] = make_target(STDOUT_FILENO);
  targets_[kErr] = same_file(STDOUT_FILENO, STDERR_FILENO) ? targets_[kOut] : make_target(STDERR_FILENO);
}

Output::~Output() = default;

void Output::add(int rank, Descriptor output, Descriptor error) {
  const auto make_stream = [this, rank](Stream stream, Descriptor pipe) {
    auto reader = std::make_unique<LineReader>(
        context_, std::move(pipe), [=, this](std::string_view lines) { take(rank, stream, lines); },
        [=, this] { return !target(stream).writer->full(); }, [this] { check_finished(); });
    reader->resume();
    return reader;
  };
  auto& streams = ranks_[static_cast<std::size_t>(rank)].streams;
  streams[kOut] = make_stream(kOut, std::move(output));
  streams[kErr] = make_stream(kErr, std::move(error));
}

void Output::note(std::string_view line) {
  Target& target = *targets_[kErr];
  if (std::exchange(target.open_line, nullptr) != nullptr) target.writer->write("\n");
  target.writer->write(fmt::format("{}\n", line));
}

void Output::take(int rank, Stream stream, std::string_view lines) {
  Rank& record = ranks_[static_cast<std::size_t>(rank)];
  if (stream == kErr) remember(record, lines);
  if (record.file) to_file(record, record.streams[stream].get(), lines);
  to_terminal(rank, stream, lines);
}

void Output::to_terminal(int rank, Stream stream, std::string_view lines) {
  Target& to = target(stream);
  if (style_.prefix) {
    const std::string prefix = prefix_of(rank, to.coloured);
    std::string block;
    for_each_line(lines, [&](std::string_view line) {
      block += prefix;
      block += line;
      block += '\n';
    });
    to.writer->write(block);
    return;
  }
  const LineReader* source = ranks_[static_cast<std::size_t>(rank)].streams[stream].get();
  if (to.open_line != nullptr && to.open_line != source) to.writer->write("\n");
  to.writer->write(lines);
  to.open_line = lines.ends_with('\n') ? nullptr : source;
}

void Output::to_file(Rank& rank, const LineReader* source, std::string_view lines) {
  std::string block;
  if (rank.open_line != nullptr && rank.open_line != source) block = "\n";
  rank.open_line = lines.ends_with('\n') ? nullptr : source;
  block += lines;
  for (std::string_view rest = block; !rest.empty();) {
    const ssize_t written = ::write(rank.file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      file_failure_ = fmt::format("--output-dir: cannot write to {}: {}", style_.directory, std::strerror(errno));
      rank.file.reset();
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Output::remember(Rank& rank, std::string_view lines) {
  for_each_line(lines, [&](std::string_view line) {
    rank.last_lines.emplace_back(line.substr(0, kLastLineBytes));
    if (rank.last_lines.size() > kLastLines) rank.last_lines.pop_front();
  });
}

void Output::changed() {
  for (const Stream stream : {kOut, kErr}) {
    // With files to fill, the ranks' output still has a reader.
    const bool nobody_reads = target(stream).writer->error() != 0 && style_.directory.empty();
    for (Rank& rank : ranks_) {
      if (!rank.streams[stream]) continue;
      if (nobody_reads) {
        rank.streams[stream]->close();
      } else {
        rank.streams[stream]->resume();
      }
    }
  }
  check_finished();
}

void Output::finish(std::function<void()> done) {
  done_ = std::move(done);
  for (Rank& rank : ranks_) {
    for (auto& stream : rank.streams) {
      if (stream) stream->finish();
    }
  }
  check_finished();
}

void Output::check_finished() {
  if (!done_) return;
  for (const Rank& rank : ranks_) {
    for (const auto& stream : rank.streams) {
      if (stream && !stream->ended()) return;
    }
  }
  for (const auto& target : targets_) {
    if (target && !target->writer->idle()) return;
  }
  std::exchange(done_, nullptr)();
}

int Output::write_error(Stream stream) const {
  const int error = targets_[stream] ? targets_[stream]->writer->error() : 0;
  return error == EPIPE ? 0 : error;
}

bool Output::failed_ranks() const {
  return style_.directory.empty() && (write_error(kOut) != 0 || write_error(kErr) != 0);
}

std::string Output::failure() const {
  if (!file_failure_.empty()) return file_failure_;
  for (const Stream stream : {kOut, kErr}) {
    const int error = write_error(stream);
    if (error == 0) continue;
    return fmt::format("standard {}: {}", stream == kOut ? "output" : "error", std::strerror(error));
  }
  return {};
}

}  // namespace rondo::detail
