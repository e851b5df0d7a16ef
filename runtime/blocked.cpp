#include "runtime/blocked.hpp"

#include <utility>

#include "runtime/control.hpp"
#include "runtime/deadline_wait.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {

Blocked::Blocked(Engine& engine) : engine_(engine) { engine_.add(*this); }

Blocked::~Blocked() {
  engine_.remove(*this);
  if (number_ != 0) tell({});
}

void Blocked::watch(Time now) {
  if (!since_) since_ = now;
  if (!engine_.hears_of_failures()) return;
  const Engine::Settings& settings = engine_.settings();
  const bool noticed = notices_.due(now - *since_, settings.notice_after);
  if (!noticed && now - looked_.value_or(*since_) < settings.stall_after) return;
  looked_ = now;
  const BlockedOn what = on();
  if (what.call.empty()) return;
  if (noticed) notice_due_ = true;
  if (!noticed && number_ != 0 && what.ranks == told_) return;
  if (number_ == 0) number_ = engine_.next_blocked();
  told_ = what.ranks;
  tell(what);
}

void Blocked::tell(const BlockedOn& what) const {
  Notice notice;
  notice.kind = Notice::Kind::waits;
  notice.rank = engine_.settings().rank;
  notice.number = number_;
  notice.text = what.call;
  // Where a notice does not hold all, it holds none, and it is taken to be under way.
  if (what.ranks.size() <= ControlReader::kMaxAwaited) notice.awaited = what.ranks;
  engine_.control()->tell(notice);
}

void Blocked::take_circle(const std::string& calls) {
  if (!std::exchange(notice_due_, false)) return;
  const BlockedOn what = on();
  if (what.ranks.empty()) return;
  engine_.log().warn("{}: waiting {}{}: a deadlock, unless another thread goes on", what.call,
                     seconds_text(engine_.clock().now() - *since_), calls);
}

}  // namespace rondo::detail
