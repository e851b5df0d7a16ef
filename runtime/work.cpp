#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <rondo/error.hpp>
#include <rondo/work.hpp>

#include "runtime/engine.hpp"
#include "runtime/naming.hpp"

namespace rondo {

using detail::Progress;

Work::Work() noexcept = default;

Work::Work(Work&& other) noexcept
    : engine_(std::move(other.engine_)),
      waitable_(std::move(other.waitable_)),
      later_(std::exchange(other.later_, 0)),
      status_(other.status_) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    give_up();
    engine_ = std::move(other.engine_);
    waitable_ = std::move(other.waitable_);
    later_ = std::exchange(other.later_, 0);
    status_ = other.status_;
  }
  return *this;
}

Work::~Work() { give_up(); }

Work::Work(std::shared_ptr<detail::Engine> engine, std::unique_ptr<detail::Waitable> waitable)
    : engine_(std::move(engine)), waitable_(std::move(waitable)) {
  if (!waitable_->finished()) engine_->progress().leave_unattended(*waitable_);
}

void Work::wait() {
  if (!waitable_) return;
  std::shared_ptr<detail::Engine> engine;
  std::exception_ptr error;
  {
    Progress::Entry entry(engine_->progress());
    engine_->progress().attend(*waitable_);
    engine_->progress().finish(entry, *waitable_);
    // Its outcome becomes the Work's. The engine may be nobody else's any more.
    const auto over = std::move(waitable_);
    status_ = over->status();
    error = over->error();
    engine = std::move(engine_);
  }
  engine.reset();  // not by the exception: that is no reason to leave
  if (error) std::rethrow_exception(error);
}

void Work::wait_on(CudaStream stream) {
  if (!waitable_ && later_ == 0) return;
  {
    Progress::Entry entry(engine_->progress());
    if (!waitable_) waitable_ = engine_->take_back(std::exchange(later_, 0));
    if (!waitable_) return;  // over, and so before whatever is queued now
    bool ordered = false;
    detail::naming(waitable_->rank(), -1, [&] {
      engine_->device().check_stream(stream, "wait_on");
      const auto done = [&] {
        return waitable_->finished() || waitable_->in_vain() || ordered || (ordered = waitable_->order(stream));
      };
      const detail::BlockedWhile blocked(*engine_, [this] { return waitable_->blocked_on(); });
      engine_->progress().until(entry, done, waitable_->deadline);
    });
    if (ordered) {
      status_ = waitable_->status();
      later_ = engine_->finish_later(std::move(waitable_));
      return;
    }
  }
  wait();
}

bool Work::wait_for(std::chrono::nanoseconds duration) {
  if (!waitable_) return true;
  {
    Progress::Entry entry(engine_->progress());
    const auto until = detail::after(engine_->clock().now(), duration);
    const bool expires = waitable_->deadline && *waitable_->deadline <= until;
    const auto finished = [this] { return waitable_->finished(); };
    if (!expires && !engine_->progress().until(entry, finished, until, Progress::Asker::any_thread)) return false;
  }
  wait();
  return true;
}

bool Work::test() {
  if (!waitable_) return true;
  Progress::Entry entry(engine_->progress());
  if (!waitable_->finished()) engine_->progress().poke(entry);
  if (!waitable_->finished()) {
    engine_->tick_if_due();
    const auto now = engine_->clock().now();
    if (waitable_->deadline && now >= *waitable_->deadline) waitable_->expire(now);
  }
  if (waitable_->finished()) status_ = waitable_->status();
  return waitable_->finished();
}

void Work::give_up() noexcept {
  if (!waitable_ || engine_->progress().forked()) {
    (void)waitable_.release();  // in a forked child it is the parent's
    return;
  }
  bool abandoned = false;
  const std::shared_ptr<detail::Engine> engine = engine_;  // `wait` gives it away
  try {
    {
      Progress::Entry entry(engine->progress());
      abandoned = !waitable_->finished() && std::uncaught_exceptions() > 0;
      if (abandoned) waitable_->abandon();
    }
    wait();
  } catch (const std::exception& error) {
    // Of what is given up the exception on its way tells.
    if (!abandoned) engine->log().warn("an operation that nobody waited for failed: {}", error.what());
  }
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::size_t wait_any(std::span<Work> works) { return Work::wait_for_any(works); }

std::size_t Work::wait_for_any(std::span<Work> works) {
  const auto pending = std::find_if(works.begin(), works.end(), [](const Work& work) { return work.valid(); });
  if (pending == works.end()) return works.size();
  detail::Engine& engine = *pending->engine_;
  std::size_t found = works.size();
  const auto look = [&] {
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i].valid() && (works[i].waitable_->finished() || works[i].waitable_->in_vain())) found = i;
    }
    return found < works.size();
  };
  std::optional<detail::Time> deadline;
  for (const Work& work : works) {
    if (!work.valid() || !work.waitable_->deadline) continue;
    deadline = deadline ? std::min(*deadline, *work.waitable_->deadline) : work.waitable_->deadline;
  }
  // Any one is enough: as long as one is under way, nobody keeps the call from its end.
  const auto blocked_on = [&] {
    detail::BlockedOn any;
    std::size_t unfinished = 0;
    bool under_way = false;
    for (const Work& work : works) {
      if (!work.valid() || work.waitable_->finished()) continue;
      const detail::BlockedOn one = work.waitable_->blocked_on();
      if (++unfinished <= 2) any.call += (unfinished == 1 ? "wait_any of " : " and ") + one.call;
      if (unfinished == 3) any.call += " and others";
      under_way |= one.ranks.empty();
      any.ranks.insert(any.ranks.end(), one.ranks.begin(), one.ranks.end());
    }
    if (under_way) any.ranks.clear();
    return any;
  };
  {
    Progress::Entry entry(engine.progress());
    const detail::BlockedWhile blocked(engine, blocked_on);
    if (!engine.progress().until(entry, look, deadline, Progress::Asker::any_thread)) {
      for (std::size_t i = 0; i < works.size(); ++i) {
        if (works[i].valid() && works[i].waitable_->deadline == deadline) found = i;
      }
    }
  }
  works[found].wait();
  return found;
}

}  // namespace rondo
