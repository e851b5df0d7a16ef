#include "bench/probe/crew.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "bench/checked.hpp"
#include "bench/command_line.hpp"
#include "bench/fork_child.hpp"
#include "bench/program.hpp"
#include "bench/settings.hpp"
#include "transport/descriptor.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using detail::Descriptor;

/// For the slowest item, on the slowest machine that the tests run on.
constexpr std::chrono::seconds kPatience{90};

/// What the new process does until it is another program. Never returns.
[[noreturn]] void become(std::vector<char*>& words, int board, int output) {
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  if (board == Board::kDescriptor) {
    ::fcntl(board, F_SETFD, 0);
  } else {
    ::dup2(board, Board::kDescriptor);
  }
  ::execv(words[0], words.data());
  ::_exit(127);
}

/// A process of a crew, killed and waited for at the latest when this goes.
class Member {
 public:
  Member(std::vector<std::string> command, int board) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    std::array<int, 2> ends{};
    checked(::pipe2(ends.data(), O_CLOEXEC), "pipe");
    output_ = Descriptor(ends[0]);
    const Descriptor their_end(ends[1]);
    process_ = fork_child();
    if (process_ == 0) become(words, board, their_end.get());
    life_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
    if (!life_) end();
    checked(life_.get(), "pidfd_open");
  }
  ~Member() { end(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  bool ended() const { return process_ < 0; }
  int status() const { return status_; }
  /// What it said last that was no figure.
  const std::string& last_words() const { return last_words_; }
  bool speaks() const { return static_cast<bool>(output_); }

  pollfd awaited_output() const { return {output_.get(), POLLIN, 0}; }
  pollfd awaited_end() const { return {ended() ? -1 : life_.get(), POLLIN, 0}; }

  /// Takes in what it says; figures go where they are gathered.
  void hear(std::vector<Figure>& figures) {
    std::array<char, 4096> part{};
    const ssize_t got = ::read(output_.get(), part.data(), part.size());
    if (got <= 0) return output_.reset();
    heard_.append(part.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = heard_.find('\n')) != std::string::npos; heard_.erase(0, end + 1)) {
      const std::string line = heard_.substr(0, end);
      if (auto figure = from_line(line)) {
        figures.push_back(std::move(*figure));
      } else if (!line.empty()) {
        last_words_ = line;
      }
    }
  }

  /// Once it has ended.
  void bury() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    process_ = -1;
  }
  void end() {
    if (ended()) return;
    ::kill(process_, SIGKILL);
    bury();
  }

 private:
  pid_t process_ = -1;
  Descriptor output_, life_;
  int status_ = 0;
  std::string heard_, last_words_;
};

/// Under way until all have ended and said all that they had to say.
class Crew {
 public:
  Crew(const Item& item, int ranks, bool quick) : item_(item), board_(Board::create()) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> command{own_path(),           "probe-part",          item.name,
                                       fmt::to_string(rank), fmt::to_string(ranks), fmt::to_string(::getpid())};
      if (quick) command.emplace_back("quick");
      members_.push_back(std::make_unique<Member>(std::move(command), board_.get()));
    }
  }

  CrewOutcome run() {
    const auto deadline = Clock::now() + kPatience;
    while (under_way()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) give_up();
      look(static_cast<int>(std::max<std::int64_t>(left, 0)));
    }
    return std::move(outcome_);
  }

 private:
  bool under_way() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const auto& member) { return !member->ended() || member->speaks(); });
  }

  void look(int milliseconds) {
    std::vector<pollfd> awaited;
    for (const auto& member : members_) {
      awaited.push_back(member->awaited_output());
      awaited.push_back(member->awaited_end());
    }
    if (::poll(awaited.data(), awaited.size(), milliseconds) <= 0) return;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (awaited[2 * rank].revents != 0) members_[rank]->hear(outcome_.figures);
      // Its last words first.
      if (awaited[2 * rank].revents == 0 && awaited[2 * rank + 1].revents != 0) buried(rank);
    }
  }

  void buried(std::size_t rank) {
    Member& member = *members_[rank];
    member.bury();
    const bool victim = item_.deadly && rank != 0;
    if (member.status() == 0 || victim) return;
    fail(member.status(), fmt::format("rank {} ended with status {}{}{}", rank, member.status(),
                                      member.last_words().empty() ? "" : ": ", member.last_words()));
  }

  void give_up() {
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (!members_[rank]->ended())
        fail(128 + SIGKILL, fmt::format("rank {} hangs: it has not ended after {} s", rank, kPatience.count()));
    }
  }

  /// The first failure counts: others follow from it.
  void fail(int status, std::string reason) {
    if (outcome_.reason.empty()) {
      outcome_.status = status;
      outcome_.reason = std::move(reason);
    }
    for (const auto& member : members_) member->end();
  }

  const Item& item_;
  Descriptor board_;
  std::vector<std::unique_ptr<Member>> members_;
  CrewOutcome outcome_;
};

}  // namespace

CrewOutcome run_crew(const Item& item, int ranks, bool quick) { return Crew(item, ranks, quick).run(); }

int probe_part_command(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) throw UsageError("probe-part is what probe starts, not for users");
  const auto number = [&](std::size_t at) { return number_of<int>(arguments[at]).value_or(-1); };
  if (::getppid() != number(3)) return kExitFailed;  // who started this has ended
  const auto items = probe_items();
  const auto item =
      std::find_if(items.begin(), items.end(), [&](const Item& each) { return each.name == arguments[0]; });
  if (item == items.end()) throw UsageError(fmt::format("probe-part: no item {}", arguments[0]));
  const cuda::DriverSearch& search = cuda::driver();
  if (!search.driver) {
    fmt::print(stderr, "{}\n", search.reason);
    return kExitCannotRun;
  }
  item->answer(Part(*search.driver, number(1), number(2), arguments.size() > 4));
  return kExitGood;
}

}  // namespace rondo::bench
