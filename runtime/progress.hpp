#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/entry_lock.hpp"
#include "runtime/idle.hpp"
#include "runtime/operation.hpp"
#include "runtime/waiter.hpp"

namespace rondo::detail {

class Engine;

/// Who drives an engine. The thread that waits has the baton and polls everything; other threads that wait park until
/// it is done or until theirs is. A helper thread exists once an asynchronous operation has been left unfinished. It
/// looks up only after the caller has been away from the library for a while, and takes the baton only when nobody has
/// it: so communication goes on while the caller computes, and there is no thread hop on the latency path.
class Progress {
 public:
  Progress(Engine& engine, Waiter& waiter, const Clock& clock, bool helper);
  ~Progress();
  /// Ends the helper thread. Before what it looks at goes, and without the lock.
  void end_help();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The engine's lock, as every public call holds it. Throws Error{forked} in a child of the process.
  class Entry {
   public:
    explicit Entry(Progress& progress) : progress_(progress), lock_(progress.mutex_, std::defer_lock) {
      if (progress.forked()) refuse_child();
      if (!lock_.try_lock()) contend();
      ++progress.entries_;
    }
    ~Entry() {
      // A driver that sleeps knows nothing of what this call may have begun.
      if (progress_.asleep_) progress_.waiter_.wake();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class Progress;
    [[noreturn]] static void refuse_child();
    void contend();

    Progress& progress_;
    std::unique_lock<EntryLock> lock_;
  };

  /// Who may ask `done()` while its thread is parked: whoever drives, where it only looks, or else its own thread
  /// alone, which then wakes whenever anything has moved.
  enum class Asker : std::uint8_t { own_thread, any_thread };
  /// Drives, or parks while another thread drives, until `done()` or the deadline. Returns whether `done()`.
  template <typename Done>
  bool until(Entry& entry, const Done& done, std::optional<Time> deadline, Asker asker = Asker::own_thread) {
    // By reference: a function of a copy may allocate.
    return drive_until(entry, std::cref(done), deadline, asker);
  }
  /// Drives until the operation has finished, or ended by its deadline. Does not throw the operation's failure.
  void finish(Entry& entry, Waitable& waitable);
  /// One look at what is awaited, for `test`.
  void poke(Entry& entry);

  /// An asynchronous operation was left unfinished, and nobody waits for it yet.
  void leave_unattended(Waitable& waitable);
  void attend(Waitable& waitable) noexcept { unattended_.remove(waitable); }
  bool nothing_unattended() const noexcept { return unattended_.empty(); }

  /// How this rank waits: under the engine's lock.
  IdleHabits& habits() noexcept { return habits_; }

  /// True in a child of the process that made this object.
  bool forked() const noexcept { return fork_generation.load(std::memory_order_relaxed) != generation_; }

 private:
  enum class Driver : std::uint8_t { none, caller, helper };

  struct InParked;
  /// A thread that waits while another one drives.
  struct Parked : ListNode<Parked, InParked> {
    Parked(const std::function<bool()>& its, Asker who) : done(its), asker(who) {}
    const std::function<bool()>& done;
    const Asker asker;
  };

  bool drive_until(Entry& entry, const std::function<bool()>& done, std::optional<Time> deadline, Asker asker);
  void wake_parked();
  void drive(std::unique_lock<EntryLock>& lock, const std::function<bool()>& done, std::optional<Time> deadline);
  bool idle_step(std::unique_lock<EntryLock>& lock, Idle& idle, std::optional<Time> deadline);
  void yield(std::unique_lock<EntryLock>& lock, const Idle& idle);
  void sleep(std::unique_lock<EntryLock>& lock, Duration at_most);
  void give_way(std::unique_lock<EntryLock>& lock);
  void pass_baton();
  void wake_helper();
  void park_helper(std::unique_lock<EntryLock>& lock);
  void help();
  void help_until_called(std::unique_lock<EntryLock>& lock, std::uint64_t entries);
  bool unfinished() noexcept;

  // Counts the forks that this process came out of.
  inline static std::atomic<unsigned> fork_generation{0};
  static const int fork_watch;

  Engine& engine_;
  Waiter& waiter_;
  const Clock& clock_;
  IdleHabits habits_;
  const bool helper_allowed_;
  const unsigned generation_;

  EntryLock mutex_;
  std::atomic<int> contenders_{0};
  std::uint64_t entries_ = 0;
  Driver driver_ = Driver::none;
  bool asleep_ = false;  // the driver is in `Waiter::wait`, without the lock
  WakeList wakes_;       // the driver's
  List<Parked, InParked> parked_;
  std::condition_variable_any baton_;

  List<Waitable, InUnattended> unattended_;
  std::thread helper_;
  std::condition_variable_any helper_wake_;
  bool helper_parked_ = false;
  bool stop_ = false;
};

}  // namespace rondo::detail
