#include "runtime/progress.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/engine.hpp"
#include "runtime/quiet_thread.hpp"

namespace rondo::detail {
namespace {

// How long a caller must have been away before the helper thread looks after what it left unfinished.
constexpr Duration kHelperGrace = std::chrono::milliseconds(1);
// The helper gives its core away soon: the caller computes.
constexpr int kHelperPolls = 4;
// Between two looks at the clock while everything moves.
constexpr unsigned kMovesPerTick = 256;
constexpr Duration kProgressTick = std::chrono::milliseconds(100);

/// For who parks: a driver that has work all the time gives the lock away to those alone who say that they want it.
struct Relock {
  std::unique_lock<EntryLock>& of;
  std::atomic<int>& contenders;

  void unlock() { of.unlock(); }
  void lock() {
    contenders.fetch_add(1, std::memory_order_relaxed);
    of.lock();
    contenders.fetch_sub(1, std::memory_order_relaxed);
  }
};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Progress::Progress(Engine& engine, Waiter& waiter, const Clock& clock, bool helper)
    : engine_(engine),
      waiter_(waiter),
      clock_(clock),
      habits_(engine.settings().idle),
      helper_allowed_(helper),
      generation_(fork_generation.load(std::memory_order_relaxed)) {}

Progress::~Progress() {
  if (forked()) {
    if (helper_.joinable()) helper_.detach();  // the thread is the parent's
    return;
  }
  end_help();
}

void Progress::end_help() {
  if (!helper_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    helper_wake_.notify_all();
    waiter_.wake();
  }
  helper_.join();
}

[[maybe_unused]] const int Progress::fork_watch =
    pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });

void Progress::Entry::refuse_child() {
  throw Error(Errc::forked, "this process was forked after rondo::init: call rondo in the parent, or exec first");
}

void Progress::Entry::contend() { Relock{lock_, progress_.contenders_}.lock(); }

bool Progress::drive_until(Entry& entry, const std::function<bool()>& done, std::optional<Time> deadline, Asker asker) {
  auto& lock = entry.lock_;
  Relock relock{lock, contenders_};
  while (!done()) {
    if (deadline && clock_.now() >= *deadline) return false;
    if (driver_ == Driver::none) {
      drive(lock, done, deadline);
      continue;
    }
    if (asleep_) waiter_.wake();
    Parked parked(done, asker);
    parked_.push(parked);
    if (deadline) {
      baton_.wait_until(relock, *deadline);
    } else {
      baton_.wait(relock);
    }
    parked_.remove(parked);
  }
  return true;
}

// All of them, as soon as one may go on.
void Progress::wake_parked() {
  for (Parked* parked = parked_.head(); parked; parked = parked_.next(*parked)) {
    if (parked->asker == Asker::any_thread && !parked->done()) continue;
    baton_.notify_all();
    return;
  }
}

void Progress::finish(Entry& entry, Waitable& waitable) {
  if (waitable.finished()) return;
  const BlockedWhile blocked(engine_, [&waitable] { return waitable.blocked_on(); });
  const auto finished = [&waitable] { return waitable.finished(); };
  const auto over = [&waitable] { return waitable.finished() || waitable.in_vain(); };
  if (until(entry, over, waitable.deadline, Asker::any_thread) && finished()) return;
  waitable.expire(clock_.now());
  until(entry, finished, std::nullopt, Asker::any_thread);
}

void Progress::poke(Entry&) {
  // Who looks now and then is not to look in vain so often before the others hear of it.
  if (driver_ == Driver::none && engine_.poll(Engine::Look::awaited) == 0) engine_.settle();
}

// Polls until `done`, or until the deadline has passed. The lock is released while it sleeps or others want it.
void Progress::drive(std::unique_lock<EntryLock>& lock, const std::function<bool()>& done,
                     std::optional<Time> deadline) {
  driver_ = Driver::caller;
  // Also where the condition throws.
  const auto pass_on = [this](Driver*) { pass_baton(); };
  const std::unique_ptr<Driver, decltype(pass_on)> driving(&driver_, pass_on);
  Idle idle(engine_.settings().idle, clock_, habits_);
  Time next_tick = Time::max();
  // Where cores are shared the others need this one first: a look at once would be in vain.
  if (habits_.shares_core() && engine_.awaits_answer() && idle.begin_with_yield()) yield(lock, idle);
  for (unsigned moves = 1; !done(); ++moves) {
    const std::size_t moved = engine_.poll(Engine::Look::awaited);
    habits_.brought(moved);
    if (moved == 0) {
      if (!idle_step(lock, idle, deadline)) break;
      continue;
    }
    idle.moved();
    if (!parked_.empty()) wake_parked();
    if (moves % kMovesPerTick == 0) {
      const Time now = clock_.now();
      if (now >= next_tick) {
        engine_.tick(now);
        engine_.poll(Engine::Look::everything);
      }
      if (next_tick == Time::max() || now >= next_tick) next_tick = now + kProgressTick;
      if (deadline && now >= *deadline) break;
    }
    give_way(lock);
  }
  idle.over();
}

// Nothing moved. False: the deadline has passed.
bool Progress::idle_step(std::unique_lock<EntryLock>& lock, Idle& idle, std::optional<Time> deadline) {
  switch (idle.next(engine_.polled())) {
    case Idle::Step::spin: pause_briefly(); [[fallthrough]];
    case Idle::Step::again: give_way(lock); return true;
    case Idle::Step::yield: yield(lock, idle); return true;
    case Idle::Step::look:
      if (engine_.poll(Engine::Look::everything) > 0) idle.moved();
      // Who is told to spin or to yield for long never comes to sleep.
      engine_.tick_if_due();
      if (deadline && idle.known_time() >= *deadline) return false;
      wake_parked();
      give_way(lock);
      return true;
    case Idle::Step::sleep: break;
  }
  const Time now = clock_.now();
  if (engine_.tick(now) > 0) {
    wake_parked();
    return true;
  }
  if (deadline && now >= *deadline) return false;
  sleep(lock, deadline ? *deadline - now : Duration::max());
  if (engine_.poll(Engine::Look::everything, &wakes_) > 0) idle.moved();
  wake_parked();
  return true;
}

void Progress::yield(std::unique_lock<EntryLock>& lock, const Idle& idle) {
  if (contenders_.load(std::memory_order_relaxed) > 0) {
    give_way(lock);
  } else {
    habits_.yield(clock_, idle.known_time());
  }
}

void Progress::sleep(std::unique_lock<EntryLock>& lock, Duration at_most) {
  const Duration limit = std::min(engine_.prepare_to_sleep(wakes_), at_most);
  if (limit > Duration::zero()) {
    asleep_ = true;
    lock.unlock();
    waiter_.wait(wakes_, limit);
    lock.lock();
    asleep_ = false;
  }
  engine_.awake();
}

void Progress::give_way(std::unique_lock<EntryLock>& lock) {
  if (contenders_.load(std::memory_order_relaxed) == 0) return;
  lock.unlock();
  while (contenders_.load(std::memory_order_relaxed) > 0) ::sched_yield();
  lock.lock();
}

void Progress::pass_baton() {
  driver_ = Driver::none;
  if (!unattended_.empty()) wake_helper();
  if (!parked_.empty()) baton_.notify_all();
}

// The helper thread.

void Progress::leave_unattended(Waitable& waitable) {
  unattended_.push(waitable);
  if (!helper_allowed_) return;
  if (helper_.joinable()) return wake_helper();
  try {
    helper_ = quiet_thread([this] { help(); });
  } catch (const std::system_error& error) {
    // As without one, then: who calls next drives.
    const std::string why =
        fmt::format("nothing goes on while the caller computes: no thread for it: {}", error.what());
    if (engine_.first_time(why)) engine_.log().warn("{}", why);
  }
}

void Progress::wake_helper() {
  if (!helper_parked_) return;
  helper_parked_ = false;
  helper_wake_.notify_all();
}

void Progress::park_helper(std::unique_lock<EntryLock>& lock) {
  helper_parked_ = true;
  helper_wake_.wait(lock, [this] { return stop_ || !helper_parked_; });
  helper_parked_ = false;
}

bool Progress::unfinished() noexcept {
  for (Waitable* waitable = unattended_.head(); waitable; waitable = unattended_.next(*waitable)) {
    if (!waitable->finished()) return true;
  }
  return false;
}

void Progress::help() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!unfinished()) {
      park_helper(lock);
      continue;
    }
    const std::uint64_t entries = entries_;
    helper_wake_.wait_for(lock, kHelperGrace);
    if (stop_ || entries != entries_) continue;
    // Whoever is parked while nobody drives has been told so, and is on its way. What it waits for need not be what
    // this thread drives for: it would not be told again.
    if (driver_ == Driver::none && !parked_.empty()) continue;
    if (driver_ == Driver::none) {
      help_until_called(lock, entries);
    } else {
      park_helper(lock);  // one call has waited all this time, and drives
    }
  }
}

// Drives until the caller is back in the library, or nothing is left to do.
void Progress::help_until_called(std::unique_lock<EntryLock>& lock, std::uint64_t entries) {
  driver_ = Driver::helper;
  for (int idle = 0; !stop_ && entries == entries_ && unfinished();) {
    if (engine_.poll(Engine::Look::awaited) > 0) {
      idle = 0;
      give_way(lock);
    } else if (++idle <= kHelperPolls) {
      give_way(lock);
      ::sched_yield();
    } else if (engine_.tick(clock_.now()) == 0) {
      sleep(lock, Duration::max());
      engine_.poll(Engine::Look::everything, &wakes_);
    }
  }
  pass_baton();
}

}  // namespace rondo::detail
