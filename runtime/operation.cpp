#include "runtime/operation.hpp"

#include <bit>
#include <set>

#include <fmt/format.h>

#include "runtime/engine.hpp"

namespace rondo::detail {

Operation::Operation(Group& group, const Call& call, std::optional<Duration> timeout)
    : group_(group), call_(call), timeout_(timeout ? timeout : group.engine().settings().timeout) {}

Operation::~Operation() {
  if (number_ != 0 && !finished_) group_.end(*this);
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
  const Operation* const running = group_.oldest_operation();
  if (running && running->thread() != thread_) {
    throw Error(
        Errc::concurrent_use,
        fmt::format("{} is unfinished in another thread: one thread at a time may run collectives on a communicator "
                    "(dup() makes another)",
                    to_string(running->call())),
        {group_.rank(), -1, std::string(to_string(call_.collective)), 0, 0, 0, {}});
  }
  if (timeout_) deadline = started_ + *timeout_;
  number_ = group_.begin(*this);
  task_ = root(*this);
  group_.check_early_calls(*this);
  task_.start();
}

Task Operation::root(Operation& self) {
  try {
    Task body = self.body();
    co_await body;
  } catch (const std::exception& error) {
    self.error_ = std::current_exception();
    self.tell_others(error.what());
  } catch (...) {
    self.error_ = std::current_exception();
    self.tell_others("an exception of an unknown type");
  }
  self.group_.end(self);
  self.finished_ = true;
}

// The caller's operator threw, or memory ran out: the others must not wait for what will not come.
void Operation::tell_others(const char* what) {
  group_.report_failure(
      Error(Errc::peer_failed, fmt::format("rank {} threw: {}", group_.rank(), what),
            {group_.rank(), group_.rank(), std::string(to_string(call_.collective)), number_, 0, 0, {}}));
}

void Operation::expire(Time now) {
  group_.report_failure(
      Error(Errc::timed_out, fmt::format("rank {} gave up {}", group_.rank(), describe(now)),
            {group_.rank(), -1, std::string(to_string(call_.collective)), number_, 0, 0, now - started_}));
}

void Operation::abandon() {
  group_.report_failure(Error(
      Errc::peer_failed, fmt::format("rank {} gave up the operation: an exception unwound its caller", group_.rank()),
      {group_.rank(), group_.rank(), std::string(to_string(call_.collective)), number_, 0, 0, {}}));
}

std::string Operation::describe(Time now) const {
  std::set<int> awaited;
  for (Message* message = group_.first_message(); message; message = List<Message, InGroup>::next(*message)) {
    if (message->operation() != this) continue;
    for (int member = 0; member < group_.size(); ++member) {
      if (message->awaits(member)) awaited.insert(member);
    }
  }
  std::string text = fmt::format("{} #{}: waiting {:.0f} s", to_string(call_), number_,
                                 std::chrono::duration<double>(now - started_).count());
  if (!awaited.empty()) text += fmt::format(" for rank{} {}", awaited.size() > 1 ? "s" : "", fmt::join(awaited, ", "));
  return text;
}

}  // namespace rondo::detail
