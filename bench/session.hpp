#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/carriers.hpp"
#include "bench/device_figures.hpp"
#include "bench/measure.hpp"
#include "bench/result.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// What a table is about: rondo, or another library measured in the same way.
struct Subject {
  std::string library;    ///< "rondo 0.1.0"
  std::string transport;  ///< "tcp"
  std::function<std::string(const Shape&)> algorithm;
  std::function<std::unique_ptr<Exercise>(const Shape&)> exercise;
  Ways ways = {};                                      ///< rondo's
  std::optional<DeviceFigures> device = std::nullopt;  ///< where the buffers are on devices
};

/// Measures every size. Rank 0 prints the table on standard output while it goes; every rank gets the results.
std::vector<Result> run_sizes(Fabric& fabric, const Subject& subject, const Settings& settings);

/// `run_sizes`, then rank 0 writes the reports that the settings ask for. Returns the exit status. Throws UsageError
/// if the settings do not fit the number of ranks.
int run_subject(Fabric& fabric, const Subject& subject, const Settings& settings);

}  // namespace rondo::bench
