#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "runtime/hub.hpp"
#include "tools/core_binding.hpp"
#include "tools/guardian.hpp"
#include "tools/output.hpp"
#include "tools/process.hpp"
#include "tools/rank_environment.hpp"
#include "tools/run_options.hpp"
#include "tools/signals.hpp"
#include "tools/summary.hpp"
#include "tools/terminal_input.hpp"

namespace rondo::detail {

/// One job, whatever number of attempts it takes.
struct Plan {
  RunOptions options;
  Inherited inherited;
  JobFacts facts;
  std::string program;  ///< a path
  std::string host;
  std::vector<Core> cores;  ///< empty: ranks are not bound
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// All ranks of a job, once: starts them, serves them (hub, output, input, signals), and ends when none is left.
///
///     running ── a rank failed, --timeout, a signal ──> terminating ── grace is over, second signal ──> killing
///        └─────────────── all ranks ended ──────────────────┴── guardian ended ──> draining ── all written ──> done
///
/// After Ctrl-C it goes on running for as long as the grace time.
class Attempt {
 public:
  struct Result {
    Outcome::Kind kind;
    int status;
    std::string summary;
    int told_to_stop;    ///< by this signal, however far it was; 0: it was not
    bool leave_at_once;  ///< a reader or a rank holds us up for ever: end without waiting for it
  };

  /// Starts it. Call while this process has one thread. Throws LaunchError.
  Attempt(const Plan& plan, int number, const Signals& signals);

  Result run();

 private:
  enum class Stage { running, terminating, killing, draining };
  std::vector<RankStart> prepare();
  RankStart prepare_rank(int rank);
  void serve();
  void wait_for_reports();
  void take_reports();
  void on_end(const Report& report);
  void on_failure(int rank, const std::optional<Notice>& said);
  void blame_first();
  void on_guardian_end();
  void wait_for_signal();
  void on_signal(int signal);
  bool is_second(int signal) const;
  void interrupt();
  void on_interrupt_over();
  void stop(int because_of, int signal);
  void on_deadline();
  void decide(Outcome::Kind kind);
  void note_waits();
  void end_job(int signal);
  void kill_job();
  void give_up();
  void after(std::chrono::nanoseconds delay, void (Attempt::*then)());
  RankRecord& record(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Result result();

  const Plan& plan_;
  const int number_;
  const Signals& signals_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> busy_{context_.get_executor()};

  /// The launcher's ends, by rank, until they have an owner.
  struct Ends {
    Descriptor output, error, control;
  };
  std::vector<Ends> ends_;
  Descriptor typed_input_;

  std::vector<RankRecord> ranks_;
  int ended_ = 0;
  int first_failed_ = -1;
  bool failed_when_interrupted_ = false;  ///< the first failure came after Ctrl-C
  Outcome outcome_;
  bool decided_ = false;
  Stage stage_ = Stage::running;
  bool interrupted_ = false;
  std::optional<std::chrono::steady_clock::time_point> told_to_end_;  ///< by SIGTERM
  int told_to_stop_ = 0;
  bool leave_at_once_ = false;
  std::optional<std::chrono::steady_clock::time_point> first_signal_;  ///< that the ranks got to make them end
  std::chrono::nanoseconds killed_after_{};

  asio::posix::stream_descriptor signal_waits_{context_};
  asio::steady_timer timer_{context_};     ///< of the stage
  asio::steady_timer deadline_{context_};  ///< --timeout
  asio::posix::stream_descriptor reports_{context_};
  Output output_;
  Guardian guardian_;  ///< forked before any thread exists
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<TerminalInput> input_;
};

}  // namespace rondo::detail
