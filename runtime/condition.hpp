#pragma once

#include <coroutine>
#include <optional>
#include <string>
#include <utility>

#include "runtime/message.hpp"

namespace rondo::detail {

struct InEngine;

/// Something that an operation waits for and that no frame announces: others bring it about in shared memory. It is
/// looked at whenever the engine polls.
class Condition : public Message, public ListNode<Condition, InEngine> {
 public:
  /// Completes when it is met. True: it has.
  bool look();
  /// Members who left before it was made are not told of again.
  void find_leavers();
  /// This member may ask for help over its link.
  void listen_to(int member);

  std::string describe() const override { return "a step in shared memory"; }
  std::string missing() const override { return "not all members came"; }

 protected:
  explicit Condition(Operation& operation);
  ~Condition() override;
  virtual bool met() = 0;

 private:
  void withdraw() noexcept override;
};

/// To be awaited until `check()` is true; `check.awaits(member)` tells who has not done his part. Looks so often before
/// anything is registered with the engine, as whoever waits spins anyway.
template <typename Check>
class Until {
 public:
  Until(Operation& operation, Check check, int looks, int listened_to = -1)
      : operation_(operation), check_(std::move(check)), looks_(looks), listened_to_(listened_to) {}

  bool await_ready() {
    for (int i = 0; i < looks_; ++i) {
      if (check_()) return true;
    }
    return false;
  }
  bool await_suspend(std::coroutine_handle<> waiter) {
    condition_.emplace(operation_, check_);
    condition_->find_leavers();
    if (listened_to_ >= 0) condition_->listen_to(listened_to_);
    if (condition_->done()) return false;
    condition_->await_suspend(waiter);
    return true;
  }
  void await_resume() {
    if (condition_) condition_->await_resume();
  }

 private:
  class Checked final : public Condition {
   public:
    Checked(Operation& operation, Check& check) : Condition(operation), check_(check) { look(); }
    bool awaits(int member) const noexcept override { return check_.awaits(member); }

   private:
    bool met() override { return check_(); }
    Check& check_;
  };

  Operation& operation_;
  Check check_;
  const int looks_;
  const int listened_to_;  // a member who may ask for help over its link; -1: none
  std::optional<Checked> condition_;
};

}  // namespace rondo::detail
