#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/clock.hpp"
#include "runtime/doubling.hpp"
#include "runtime/list.hpp"
#include "runtime/notice.hpp"

namespace rondo::detail {

class Engine;
struct InEngine;

/// What a thread waits for that others have to bring about.
struct BlockedOn {
  std::string call;                    ///< "recv from rank 1 with tag 7"; empty: it is over
  std::vector<Notice::Awaited> ranks;  ///< who may bring it about; none: it is under way
};

/// A thread in a call that ends when others have done something, from there to its end. After a second the hub hears of
/// it, who so knows where every rank is; where those whom it waits for wait for this rank in turn, a line says so.
/// Others may be long in coming because they compute: nothing is said of that. Under the engine's lock.
class Blocked : public ListNode<Blocked, InEngine> {
 public:
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

  std::uint64_t number() const noexcept { return number_; }
  /// Looks whether it is time to tell the hub.
  void watch(Time now);
  /// The hub's answer when it was told again: they wait for each other, and in which calls.
  void take_circle(const std::string& calls);

 protected:
  explicit Blocked(Engine& engine);
  ~Blocked();
  virtual BlockedOn on() const = 0;

 private:
  void tell(const BlockedOn& what) const;

  Engine& engine_;
  std::uint64_t number_ = 0;   // given when the hub is told
  std::optional<Time> since_;  // as the first look found it: to wait costs no look at the clock
  std::optional<Time> looked_;
  std::vector<Notice::Awaited> told_;
  Doubling notices_;
  bool notice_due_ = false;
};

/// `on()` tells what for.
template <typename On>
class BlockedWhile final : public Blocked {
 public:
  BlockedWhile(Engine& engine, On on) : Blocked(engine), on_(std::move(on)) {}

 private:
  BlockedOn on() const override { return on_(); }

  const On on_;
};

}  // namespace rondo::detail
