#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.hpp"
#include "bench/operation.hpp"
#include "bench/statistics.hpp"

namespace rondo::bench {

/// One line of the table. GB/s are 10^9 bytes a second, of the mean time, as nccl-tests reports them.
struct Result {
  Operation operation = Operation::all_reduce;
  std::string algorithm;
  std::string transport;
  std::string type;
  std::string reduce;  ///< "none" where nothing is reduced
  int root = -1;       ///< -1: none
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::size_t iterations = 0;
  Times time_us;
  double algbw_GBps = 0;
  double busbw_GBps = 0;
  std::optional<std::size_t> wrong;  ///< none: not checked
  /// What the host paid for a call until its thread might go on, the mean; none: not on devices.
  std::optional<double> enqueue_us;
  std::optional<double> call_us;  ///< of that, until the call itself had returned
  /// Of the bandwidth of copies within a device's memory, what the operation's reading and writing came to; none: not
  /// on devices.
  std::optional<double> copy_percent;
};

/// Fills in what was measured; `into` says what of.
void take(const Measurement& measurement, int ranks, bool checked, Result& into);

/// Fills in `copy_percent`, once the rest is known.
void compare_with_copies(double copy_GBps, int ranks, Result& result);

/// `kExitWrong` if any result was.
int exit_status(const std::vector<Result>& results);

}  // namespace rondo::bench
