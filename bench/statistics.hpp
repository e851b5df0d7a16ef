#pragma once

#include <vector>

namespace rondo::bench {

struct Times {
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

/// The smallest sample that at least `share` (0 to 1) of all samples do not exceed: nearest rank, no interpolation,
/// so that every figure printed was measured. `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double share);

/// Of at least one sample, in the samples' unit.
Times summarise(std::vector<double> samples);

}  // namespace rondo::bench
