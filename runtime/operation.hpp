#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/status.hpp>
#include <rondo/task.hpp>

#include "runtime/blocked.hpp"
#include "runtime/clock.hpp"
#include "runtime/doubling.hpp"
#include "runtime/list.hpp"
#include "runtime/message.hpp"

namespace rondo::detail {

class Engine;
class Group;
struct InOperations;
struct InUnattended;

/// What a thread can wait for: a collective, or a point-to-point message. All under the engine's lock.
class Waitable : public ListNode<Waitable, InUnattended> {
 public:
  virtual ~Waitable() = default;
  Waitable(const Waitable&) = delete;
  Waitable& operator=(const Waitable&) = delete;

  /// Of this process, where it is done; known when the communicator is gone, too.
  int rank() const noexcept { return rank_; }
  virtual bool finished() const noexcept = 0;
  virtual std::exception_ptr error() const noexcept = 0;
  virtual Status status() const noexcept { return {}; }
  /// What is queued on the stream from here on comes after it, and its status is known. False: that cannot be said
  /// before it has finished.
  virtual bool order(CudaStream) { return false; }
  /// What it waits for can come from nobody any more, so that waiting would only end at the deadline.
  virtual bool in_vain() const { return false; }
  BlockedOn blocked_on() const { return finished() ? BlockedOn() : still_blocked_on(); }
  /// The deadline has passed, or it is in vain: ends it with an error that says which.
  virtual void expire(Time now) = 0;
  /// It is given up by an exception that unwinds the caller.
  virtual void abandon() = 0;
  /// Its caller is done with it, and whoever calls next need not be the same thread.
  virtual void leave() noexcept {}

  std::optional<Time> deadline;

  // Waitables come and go with every asynchronous call; their memory is pooled like coroutine frames.
  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { free_frame(memory, bytes); }

 protected:
  explicit Waitable(int rank) : rank_(rank) {}
  /// Its communicator may be gone once it has finished.
  virtual BlockedOn still_blocked_on() const = 0;

 private:
  int rank_;
};

/// One collective on one communicator, from the call to its end. Derive, and give the coroutine that does it.
class Operation : public Waitable, public ListNode<Operation, InOperations> {
 public:
  Operation(Group& group, const Call& call, std::optional<Duration> timeout);
  ~Operation() override;

  /// Takes the next number on the communicator and runs until the first message that has not come.
  void start();

  Group& group() const noexcept { return group_; }
  const Call& call() const noexcept { return call_; }
  std::uint32_t number() const noexcept { return number_; }
  /// None, once that has left it.
  std::thread::id thread() const noexcept { return thread_; }

  /// The call as every frame of the operation carries it.
  void stamp(FrameHeader& header) const noexcept;

  bool finished() const noexcept override { return finished_; }
  std::exception_ptr error() const noexcept override { return error_; }
  void expire(Time now) override;
  void abandon() override;
  void leave() noexcept override { thread_ = {}; }

  /// It has failed here: the others are to hear of it, if they have not.
  void report(const std::exception_ptr& failure);

  /// "all_reduce(float x 1024, sum, ring) #4711: waiting 10 s for rank 3"
  std::string describe(Duration waited) const;

  /// Looks whether it is time to tell the hub that this operation does not get on, and to log whom it waits for.
  void watch(Time now);
  /// Another rank is in the same call, but has not been in the same calls before: as long as this is true the hub may
  /// still say which.
  bool leaves_it_to_hub();
  /// The hub's answer when it was told again: who has not come to it.
  void take_absence(const std::string& absence);

 protected:
  BlockedOn still_blocked_on() const override;
  virtual Task body() = 0;
  /// About how long the vector is, or a rank's share, as the call counts it.
  virtual std::size_t moved_bytes() const noexcept { return call_.count * call_.element_bytes; }

 private:
  class Verdict;

  static Task root(Operation& self);
  std::vector<int> awaited() const;
  void tell_stalled(Time now);
  void end();

  Group& group_;
  const Call call_;
  std::optional<Duration> timeout_;
  std::uint32_t number_ = 0;
  std::thread::id thread_;
  Time started_{};
  Task task_;
  std::optional<Time> told_stalled_;
  std::vector<int> told_awaited_;
  std::optional<Time> left_to_hub_;
  Doubling notices_;
  bool notice_due_ = false;
  bool finished_ = false;
  std::exception_ptr error_;
};

}  // namespace rondo::detail
