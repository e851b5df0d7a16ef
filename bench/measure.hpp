#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace rondo::bench {

// How an iteration is timed, on rondo, on the peers and on raw sockets alike:
//
//  - Every rank reads the steady clock right before and right after each call. The time of an iteration is the
//    longest over the ranks; the ranks' samples are put together after the last iteration, outside of what is timed.
//  - Operations in which no rank can finish before all have begun (all_reduce, all_gather, reduce_scatter,
//    all_to_all, barrier) run back to back: each is the synchronisation of the next. A barrier before each would add
//    to every sample the few microseconds by which ranks leave a barrier one after the other.
//  - The others (broadcast, reduce, scatter, gather) would let a rank run ahead and measure buffering. An untimed
//    barrier comes before each iteration, and its uneven end is part of the sample.
//  - latency and bandwidth are timed by rank 0 alone: half of a round trip, and one window of messages with the
//    receiver's answer, divided by the number of messages.
//  - Where buffers are on devices, what the host pays to enqueue an operation is timed by itself, in calls that return
//    as soon as their thread may go on. Each comes after a barrier, and the device is done with all before it. The
//    part of it until the call itself (isend, iall_reduce, ...) has returned waits for no other rank, and is timed,
//    too.
//  - Results are checked in iterations that count: the first, the last and at most some nine between, ten apart or
//    more. Before these the input is written and the output cleared, after them the result is compared, between
//    barriers, untimed; so of few iterations, as of long ones, a share is not back to back.

/// The ranks as the loop needs them; also over MPI, Gloo and raw sockets.
class Fabric {
 public:
  enum class Fold { max, sum };

  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  /// Folds each value over all ranks; every rank gets the results.
  virtual void fold(std::span<double> values, Fold how) = 0;
};

/// One operation on buffers of one size.
class Exercise {
 public:
  /// `zeros`: only where an iteration works on what the one before left, so that no sum grows beyond its type.
  enum class Contents { pattern, zeros };

  Exercise() = default;
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;
  virtual ~Exercise() = default;

  /// Writes the input and clears the output.
  virtual void prepare(Contents contents) = 0;
  virtual void run() = 0;
  /// The same, on devices, but returns as soon as its thread may go on: the device has it in its queue.
  /// Seconds of that until the calls themselves (isend, iall_reduce, ...) had returned.
  virtual double enqueue() {
    run();
    return 0;
  }
  /// Until the device has done what was enqueued.
  virtual void settle() {}
  /// Wrong elements in this rank's result of a `run` after `prepare(Contents::pattern)`.
  virtual std::size_t wrong() const = 0;
  /// What one `run` on this rank counts for: 0 where this rank does not time, 0.5 where a run is a round trip.
  virtual double scale() const { return 1; }
};

struct Plan {
  int warmup = 0;
  int iterations = 1;             ///< ignored where `seconds` is given
  std::optional<double> seconds;  ///< as many iterations as take about this long
  bool check = true;
  bool barrier_before_each = false;
  bool enqueue = false;  ///< time that by itself, too
};

struct Measurement {
  std::vector<double> seconds;  ///< one per iteration, the longest over the ranks; the same on every rank
  std::size_t wrong = 0;        ///< elements, over all ranks and all checked iterations
  /// Of calls to `enqueue`, each the longest over the ranks; none where the plan asks for none.
  std::vector<double> enqueue_seconds = {};
  std::vector<double> call_seconds = {};  ///< of these, until the calls themselves had returned
};

/// How many iterations take about `seconds`: a trial doubles until it lasts a twentieth of that. All ranks count the
/// slowest one's time, so that they agree; at least 1, and as many as a million.
int iterations_within(Fabric& fabric, Exercise& exercise, double seconds, bool barrier_before_each);

/// Called by every rank with the same plan. `on_progress` hears, between iterations, which share is done.
Measurement measure(Fabric& fabric, Exercise& exercise, const Plan& plan,
                    const std::function<void(double)>& on_progress = {});

}  // namespace rondo::bench
