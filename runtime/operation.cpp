#include "runtime/operation.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "runtime/condition.hpp"
#include "runtime/control.hpp"
#include "runtime/deadline_wait.hpp"
#include "runtime/engine.hpp"
#include "runtime/rank_list.hpp"

namespace rondo::detail {

Operation::Operation(Group& group, const Call& call, std::optional<Duration> timeout)
    : Waitable(group.rank()),
      group_(group),
      call_(call),
      timeout_(timeout ? timeout : group.engine().settings().timeout) {}

Operation::~Operation() {
  if (number_ != 0 && !finished_) end();
}

void Operation::stamp(FrameHeader& header) const noexcept {
  header.context = FrameHeader::collective;
  header.communicator = group_.id();
  header.number = number_;
  header.fingerprint = std::bit_cast<decltype(header.fingerprint)>(call_);
}

void Operation::start() {
  thread_ = std::this_thread::get_id();
  started_ = group_.engine().clock().now();
  const Operation* const running = group_.oldest_of_a_thread();
  if (running && running->thread() != thread_) {
    throw Error(
        Errc::concurrent_use,
        fmt::format("{} is unfinished in another thread: one thread at a time may run collectives on a communicator "
                    "(dup() makes another)",
                    to_string(running->call())),
        group_.facts_of(call_.collective, 0));
  }
  if (timeout_) deadline = after(started_, *timeout_);
  group_.engine().progress().habits().expect(moved_bytes(), group_.home_core());
  number_ = group_.begin(*this);
  task_ = root(*this);
  group_.check_early_calls(*this);
  task_.start();
}

void Operation::report(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    group_.report_throw(call_.collective, number_, error);
  } catch (...) {
    group_.report_throw(call_.collective, number_, std::runtime_error("an exception of an unknown type"));
  }
}

/// Ends with the communicator.
class Operation::Verdict final : public Condition {
 public:
  explicit Verdict(Operation& operation) : Condition(operation) {}
  bool awaits(int) const noexcept override { return false; }

 private:
  bool met() override { return false; }
};

Task Operation::root(Operation& self) {
  bool told = false;
  try {
    Task body = self.body();
    co_await body;
    self.group_.check_left_over(self);
  } catch (const ToldFailure&) {
    told = true;
  } catch (...) {
    self.error_ = std::current_exception();
    self.report(self.error_);
  }
  if (told || self.group_.awaits_verdict()) {
    // The caller goes on once it is final: others may be in the middle of this call, and would take his next for it.
    Verdict verdict(self);
    try {
      co_await verdict;
    } catch (const Error&) {
      if (told) self.error_ = std::current_exception();
    }
  }
  self.end();
  self.finished_ = true;
}

void Operation::end() {
  group_.end(*this);
  if (!told_stalled_) return;
  Notice notice;
  notice.kind = Notice::Kind::resumed;
  notice.rank = group_.engine().settings().rank;
  notice.communicator = group_.id();
  group_.engine().control()->tell(notice);
}

void Operation::expire(Time now) {
  Error::Facts facts = group_.facts_of(call_.collective, number_);
  facts.elapsed = now - started_;
  group_.report_failure(
      Error(Errc::timed_out,
            fmt::format("{} gave up {}", group_.name(group_.rank()), describe(timeout_.value_or(now - started_))),
            std::move(facts)),
      group_.in_world(awaited()));
}

void Operation::abandon() {
  group_.report_failure(Error(Errc::peer_failed,
                              group_.name(group_.rank()) + " gave up the operation: an exception unwound its caller",
                              group_.facts_of(call_.collective, number_, group_.rank())));
}

std::vector<int> Operation::awaited() const {
  std::set<int> members;
  for (Message* message = group_.first_message(); message; message = List<Message, InGroup>::next(*message)) {
    if (message->operation() != this) continue;
    for (int member = 0; member < group_.size(); ++member) {
      if (message->awaits(member)) members.insert(member);
    }
  }
  return {members.begin(), members.end()};
}

std::string Operation::describe(Duration waited) const {
  const auto members = awaited();
  return fmt::format("{} #{}: waiting {}{}", to_string(call_), number_, seconds_text(waited),
                     members.empty() ? "" : " for " + group_.name(members));
}

// Among those that have come to it, it may be under way; who has not, it says itself.
BlockedOn Operation::still_blocked_on() const {
  const std::string where =
      group_.id() == kWorldId ? "" : fmt::format(" of {} of the world", rank_list(group_.members()));
  return {.call = fmt::format("{} #{}{}", to_string(call_), number_, where), .ranks = {}};
}

void Operation::watch(Time now) {
  const Engine::Settings& settings = group_.engine().settings();
  const bool noticed = notices_.due(now - started_, settings.notice_after);
  if (noticed) notice_due_ = true;
  if (!group_.engine().hears_of_failures()) {
    return take_absence("");
  }
  // Before a deadline, too, however short: or the first to give up would hear that the others have not come to it.
  const Duration patience = timeout_ ? std::min(settings.stall_after, *timeout_ / 2) : settings.stall_after;
  // Told again to have the hub's answer, and where the others would wrongly be blamed for what is over.
  const bool due = now - told_stalled_.value_or(started_) >= patience;
  if (noticed || (due && (!told_stalled_ || told_awaited_ != awaited()))) tell_stalled(now);
}

bool Operation::leaves_it_to_hub() {
  const Engine& engine = group_.engine();
  const Time now = engine.clock().now();
  if (!left_to_hub_) left_to_hub_ = now;
  return engine.hears_of_failures() && now - *left_to_hub_ < 3 * engine.settings().stall_after;
}

void Operation::tell_stalled(Time now) {
  told_stalled_ = now;
  told_awaited_ = awaited();
  Notice notice;
  notice.kind = Notice::Kind::stalled;
  notice.rank = group_.engine().settings().rank;
  notice.communicator = group_.id();
  notice.number = number_;
  notice.call = call_;
  notice.before = group_.calls_before(number_);
  notice.awaited = group_.in_world(told_awaited_);
  group_.engine().control()->tell(notice);
}

void Operation::take_absence(const std::string& absence) {
  if (!std::exchange(notice_due_, false)) return;
  group_.engine().log().warn("{}{}", describe(group_.engine().clock().now() - started_), absence);
}

}  // namespace rondo::detail
