#include "tools/attempt.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace rondo::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// For the rank whose failure the others heard of, to end itself: they may be faster.
constexpr seconds kBlameTime{1};
/// timeout(1) sends its SIGTERM twice, to its child and to their process group: that is one.
constexpr milliseconds kSameSignal{100};
/// For a killed process to go: only one in an uninterruptible system call takes longer.
constexpr seconds kKillTime{10};

std::string seconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{:.6g} s", std::chrono::duration<double>(time).count());
}

Descriptor duplicate(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

}  // namespace

Attempt::Attempt(const Plan& plan, int number, const Signals& signals)
    : plan_(plan),
      number_(number),
      signals_(signals),
      ends_(static_cast<std::size_t>(plan.options.size)),
      ranks_(static_cast<std::size_t>(plan.options.size)),
      output_(context_, {plan.options.prefix, plan.options.output_directory, number}, plan.options.size),
      guardian_(prepare(), plan.inherited, fmt::format("rondo-{}-{}", plan.facts.id, number)) {
  serve();
}

std::vector<RankStart> Attempt::prepare() {
  outcome_.oom_before = OomKills::now();
  std::vector<RankStart> starts;
  for (int rank = 0; rank < plan_.options.size; ++rank) starts.push_back(prepare_rank(rank));
  return starts;
}

RankStart Attempt::prepare_rank(int rank) {
  RankStart start;
  start.program = plan_.program;
  start.arguments = plan_.options.command;
  start.environment = make_environment(rank_variables(plan_.facts, rank, number_), plan_.options.exports);
  if (!plan_.cores.empty()) start.cpus = plan_.cores[static_cast<std::size_t>(rank) % plan_.cores.size()].cpus;
  Ends& ends = ends_[static_cast<std::size_t>(rank)];
  Pipe output = make_pipe(), error = make_pipe();
  ends.output = std::move(output.read);
  start.output = std::move(output.write);
  ends.error = std::move(error.read);
  start.error = std::move(error.write);
  std::tie(ends.control, start.control) = make_socket_pair(SOCK_STREAM);
  if (rank != 0) {
    start.input = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  } else if (::isatty(STDIN_FILENO) == 0) {
    start.input = duplicate(STDIN_FILENO);
  } else {
    Pipe input = make_pipe();
    start.input = std::move(input.read);
    typed_input_ = std::move(input.write);
  }
  if (!start.input) throw_errno("cannot open a standard input");
  return start;
}

void Attempt::serve() {
  const RunOptions& options = plan_.options;
  output_.start();
  hub_ = std::make_unique<Hub>(context_, Hub::Job{.id = plan_.facts.id,
                                                  .attempt = static_cast<std::uint32_t>(number_),
                                                  .size = options.size,
                                                  .key = JobKey::random()});
  for (int rank = 0; rank < options.size; ++rank) {
    Ends& ends = ends_[static_cast<std::size_t>(rank)];
    output_.add(rank, std::move(ends.output), std::move(ends.error));
    hub_->adopt(ends.control.release(), rank);
    if (options.report_bindings) {
      const std::string where =
          plan_.cores.empty() ? "not bound"
                              : "bound to " + plan_.cores[static_cast<std::size_t>(rank) % plan_.cores.size()].name;
      output_.note(fmt::format("rondo-run: rank {} is {}", rank, where));
    }
  }
  if (typed_input_) input_ = std::make_unique<TerminalInput>(context_, std::move(typed_input_));
  if (plan_.deadline) {
    deadline_.expires_at(*plan_.deadline);
    deadline_.async_wait([this](const asio::error_code& error) {
      if (!error) on_deadline();
    });
  }
  reports_.assign(duplicate(guardian_.descriptor()).release());
  wait_for_reports();
  signal_waits_.assign(duplicate(signals_.descriptor()).release());
  wait_for_signal();
}

Attempt::Result Attempt::run() {
  context_.run();
  return result();
}

void Attempt::wait_for_reports() {
  reports_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) take_reports();
  });
}

void Attempt::take_reports() {
  while (true) {
    Report report{};
    switch (guardian_.read(report)) {
      case Guardian::Read::nothing: return wait_for_reports();
      case Guardian::Read::ended: return on_guardian_end();
      case Guardian::Read::report: break;
    }
    if (report.kind == Report::Kind::started) {
      record(report.rank).pid = report.pid;
    } else if (report.kind == Report::Kind::ended) {
      on_end(report);
    } else if (!decided_) {
      outcome_.first_rank = report.rank;
      outcome_.error = report.value;
      if (report.kind == Report::Kind::no_pipe) outcome_.reason = "cannot make a pipe";
      if (report.kind == Report::Kind::no_process) outcome_.reason = "cannot fork";
      decide(report.kind == Report::Kind::refused ? Outcome::Kind::not_run : Outcome::Kind::not_started);
      kill_job();
    }
  }
}

void Attempt::on_end(const Report& report) {
  RankRecord& rank = record(report.rank);
  rank.wait_status = report.value;
  rank.end = stage_ == Stage::running       ? RankRecord::End::own
             : stage_ == Stage::terminating ? RankRecord::End::terminated
                                            : RankRecord::End::killed;
  ++ended_;
  const std::optional<Notice> said = hub_->failure();  // by the ranks, before the hub hears of this end
  hub_->report_end(report.rank, describe_end(report.value));
  if (exit_status_of(report.value) != 0 && stage_ == Stage::running) on_failure(report.rank, said);
  if (ended_ < plan_.options.size) return;
  if (first_failed_ >= 0 && !decided_) blame_first();
  // What the ranks started and left behind ends with them; the guardian goes when nothing is left.
  guardian_.sweep(SIGTERM);
  if (stage_ == Stage::running) {
    stage_ = Stage::terminating;
    after(plan_.options.grace, &Attempt::kill_job);
  }
}

/// Which rank was first is known by the order in which they end, but for one case: whose failure goes through the hub
/// makes the others fail too, and they may end before it.
void Attempt::on_failure(int rank, const std::optional<Notice>& said) {
  if (decided_) return;
  if (first_failed_ < 0) {
    first_failed_ = rank;
    failed_when_interrupted_ = interrupted_;
  }
  if (said && said->rank < 0 && hub_->joined(rank)) outcome_.reason = said->text;
  const int author = hub_->origin() ? hub_->origin()->rank : -1;
  if (author == rank) first_failed_ = rank;
  if (author >= 0 && author != rank && record(author).end == RankRecord::End::none) {
    if (first_failed_ == rank) after(kBlameTime, &Attempt::blame_first);
    return;
  }
  blame_first();
}

void Attempt::blame_first() {
  outcome_.first_rank = first_failed_;
  const auto& origin = hub_->origin();
  if (origin && origin->rank == first_failed_ && !origin->text.empty()) outcome_.reason = origin->text;
  if (origin && origin->text.empty() && hub_->joined(first_failed_)) {
    const RankRecord& silent = record(origin->rank);
    if (silent.end == RankRecord::End::own && exit_status_of(silent.wait_status) == 0) {
      outcome_.left_before = origin->rank;
    }
  }
  outcome_.oom_after = OomKills::now();
  if (failed_when_interrupted_) {
    outcome_.signal = SIGINT;
    decide(Outcome::Kind::signalled);
  } else {
    decide(output_.failed_ranks() ? Outcome::Kind::output_failed : Outcome::Kind::rank_failed);
  }
  end_job(SIGTERM);
}

void Attempt::on_deadline() {
  if (stage_ == Stage::terminating || stage_ == Stage::killing) return;
  decide(Outcome::Kind::timed_out);
  if (stage_ == Stage::draining) return give_up();
  hub_->abort(fmt::format("the job is not done after the --timeout of {}", seconds_text(*plan_.options.timeout)));
  end_job(SIGTERM);
}

void Attempt::decide(Outcome::Kind kind) {
  if (decided_) return;
  decided_ = true;
  outcome_.kind = kind;
  if (!interrupted_) note_waits();
}

void Attempt::note_waits() {
  const std::vector<std::string> calls = hub_->where_ranks_wait();
  outcome_.waited.clear();
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const bool is_there = ranks_[rank].end == RankRecord::End::none;
    outcome_.waited.push_back(is_there ? std::optional(calls[rank]) : std::nullopt);
  }
}

void Attempt::end_job(int signal) {
  if (stage_ != Stage::running) return;
  stage_ = Stage::terminating;
  if (!first_signal_) first_signal_ = steady_clock::now();
  // A stopped process would hear nothing. After it, a leak checker at the end of a rank might hang over it.
  guardian_.signal(SIGCONT);
  guardian_.signal(signal);
  after(plan_.options.grace, &Attempt::kill_job);
}

void Attempt::kill_job() {
  if (stage_ == Stage::killing || stage_ == Stage::draining) return;
  stage_ = Stage::killing;
  if (first_signal_) killed_after_ = steady_clock::now() - *first_signal_;
  guardian_.kill();
  after(kKillTime, &Attempt::give_up);
}

void Attempt::give_up() {
  leave_at_once_ = true;
  context_.stop();
}

void Attempt::after(std::chrono::nanoseconds delay, void (Attempt::*then)()) {
  timer_.expires_after(delay);
  timer_.async_wait([this, then](const asio::error_code& error) {
    if (!error) (this->*then)();
  });
}

void Attempt::on_guardian_end() {
  outcome_.guardian_end = guardian_.conclude();
  if (outcome_.guardian_end != 0 || ended_ < plan_.options.size) decide(Outcome::Kind::guardian_lost);
  stage_ = Stage::draining;
  timer_.cancel();
  // Who was told to stop does not wait for ever for a reader that does not read; else only --timeout or a signal ends
  // that.
  const bool told = outcome_.kind == Outcome::Kind::signalled || outcome_.kind == Outcome::Kind::timed_out;
  if (told) after(plan_.options.grace, &Attempt::give_up);
  if (input_) input_->close();
  output_.finish([this] { context_.stop(); });
}

void Attempt::wait_for_signal() {
  signal_waits_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    if (const int signal = signals_.next(); signal != 0) on_signal(signal);
    wait_for_signal();
  });
}

/// A second Ctrl-C, or one while the job is being ended anyway; a second SIGTERM.
bool Attempt::is_second(int signal) const {
  if (signal == SIGINT) return interrupted_ || stage_ != Stage::running;
  return signal == SIGTERM && told_to_end_ && steady_clock::now() - *told_to_end_ > kSameSignal;
}

/// The ranks may take Ctrl-C as they like, but not for ever.
void Attempt::interrupt() {
  interrupted_ = true;
  note_waits();  // before they go
  first_signal_ = steady_clock::now();
  guardian_.signal(SIGINT);
  output_.note("rondo-run: interrupted; waiting for the ranks to end (press Ctrl-C again to kill them)");
  if (first_failed_ < 0) after(plan_.options.grace, &Attempt::on_interrupt_over);
}

void Attempt::on_interrupt_over() { stop(SIGINT, SIGTERM); }

void Attempt::stop(int because_of, int signal) {
  outcome_.signal = because_of;
  decide(Outcome::Kind::signalled);
  end_job(signal);
}

void Attempt::on_signal(int signal) {
  const bool to_end = Signals::tells_to_stop(signal);
  if (to_end) told_to_stop_ = signal;
  if (stage_ == Stage::draining) {
    // Only a reader of our output that does not read keeps us.
    if (to_end) give_up();
  } else if (is_second(signal)) {
    outcome_.signal = signal;
    decide(Outcome::Kind::signalled);
    kill_job();
  } else if (signal == SIGINT) {
    interrupt();
  } else if (to_end) {
    if (signal == SIGTERM) told_to_end_ = steady_clock::now();
    stop(signal, signal);
  } else {
    guardian_.signal(signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);
    if (signal == SIGCONT && input_) input_->resume();
  }
}

Attempt::Result Attempt::result() {
  const RunOptions& options = plan_.options;
  // A rank may be told to end, and end well.
  const bool all_well = outcome_.kind == Outcome::Kind::signalled && ended_ == options.size &&
                        std::all_of(ranks_.begin(), ranks_.end(),
                                    [](const RankRecord& rank) { return exit_status_of(rank.wait_status) == 0; });
  if (all_well) outcome_.kind = Outcome::Kind::succeeded;
  const SummaryFacts facts{.program = plan_.program,
                           .host = plan_.host,
                           .timeout = options.timeout ? seconds_text(*options.timeout) : "",
                           .killed_after = seconds_text(std::chrono::round<milliseconds>(killed_after_)),
                           .attempt = number_,
                           .attempts = options.max_restarts + 1};
  const int first = outcome_.kind == Outcome::Kind::rank_failed ? outcome_.first_rank : 0;
  Result result{outcome_.kind, exit_status(outcome_, ranks_),
                summarize(outcome_, ranks_, facts, output_.last_lines(first)), told_to_stop_, leave_at_once_};
  if (stage_ == Stage::killing) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].end != RankRecord::End::none || ranks_[rank].pid < 0) continue;
      result.summary += fmt::format("rondo-run: rank {}, pid {} does not end, {} after SIGKILL\n", rank,
                                    ranks_[rank].pid, seconds_text(kKillTime));
    }
  }
  const std::string lost = output_.failure();
  if (!lost.empty()) {
    result.summary += fmt::format("rondo-run: {}\n", lost);
    if (result.status == 0) result.status = kLauncherError;
  }
  return result;
}

}  // namespace rondo::detail
