#pragma once

#include <functional>
#include <vector>

namespace rondo::bench {

/// How long a line of memory takes from one core to another. The host of a virtual machine moves its cores about,
/// mostly when they have been idle, and then short messages take up to five times as long, for a moment or for minutes.
/// So each program of a comparison is started only once the cores are near each other, or a second has passed, and
/// looked after when it has ended. What is near is known once it has been seen: a comparison may begin with cores that
/// are apart, so each time is kept with the distance that it was taken at, and judged in the end.
class CoreDistance {
 public:
  /// Microseconds one way, as found now; 0: there are not two cores to ask.
  using Measure = std::function<double()>;
  static double between_first_two_cores();
  /// So many times the least is apart. (Two threads of one core are nearer than two cores that share a cache.)
  static constexpr double kApart = 3;

  CoreDistance() : CoreDistance(&between_first_two_cores) {}
  explicit CoreDistance(Measure measure, double patience_seconds = 1);

  /// Keeps two cores at work until they are near, by all that is known; how far they then are.
  double settle();
  /// How far they are now.
  double now();
  /// Of a distance that was found, by the least one until now.
  bool is_near(double found) const noexcept { return found <= kApart * least_; }

  double least() const noexcept { return least_; }
  int settled() const noexcept;  ///< how often they were near then
  int apart() const noexcept;    ///< how often they were not

 private:
  const Measure measure_;
  const double patience_seconds_;
  double least_ = 0;
  std::vector<double> settled_at_;
};

}  // namespace rondo::bench
