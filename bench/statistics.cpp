#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace rondo::bench {

double percentile(const std::vector<double>& sorted, double share) {
  const auto size = static_cast<double>(sorted.size());
  const double place = std::clamp(std::ceil(share * size), 1.0, size);
  return sorted[static_cast<std::size_t>(place) - 1];
}

Times summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double total = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {total / static_cast<double>(samples.size()), samples.front(), percentile(samples, 0.50),
          percentile(samples, 0.99), samples.back()};
}

}  // namespace rondo::bench
