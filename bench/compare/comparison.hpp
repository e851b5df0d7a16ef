#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare/contender.hpp"
#include "bench/compare/series.hpp"

namespace rondo::bench {

/// What is to be compared.
struct ComparisonPlan {
  std::vector<Path> paths;
  std::vector<Operation> operations;
  std::vector<std::size_t> sizes;
  std::vector<int> ranks;
  std::vector<std::string> peers;
  bool peers_named = false;  ///< rather than all that there are
  int rounds = 9;
  double seconds = 0.05;  ///< about, for each loop
  BufferPlace place = BufferPlace::host;
  Limits limits;
};

/// The loops for a number of ranks: latency for two only, barrier once, at 0 bytes.
std::vector<Loop> loops_for(const ComparisonPlan& plan, int ranks);

/// What one contender's runs gave, by the number of ranks.
struct Entry {
  Contender contender;
  std::map<int, Series> by_ranks;
};

/// What one library did in one cell: its best variant's median over the rounds, or why there is none.
struct Standing {
  std::optional<double> microseconds;
  std::vector<double> rounds;  ///< the times that it is the median of, as they came
  bool apart = false;          ///< all that there are are of cores apart from each other
  std::string variant;         ///< that has this time
  std::string trouble;
};

/// One line of the table.
struct Row {
  Path path = Path::shm;
  int ranks = 2;
  Operation operation = Operation::all_reduce;
  std::size_t bytes = 0;
  Standing rondo;
  std::map<std::string, Standing> others;
  std::string best;             ///< of the other libraries; empty if none was measured
  std::optional<double> ratio;  ///< rondo's time over the best's
};

std::string describe(const Row& row);      ///< "all_reduce 64K, 4 ranks, shm"
std::string name_of_best(const Row& row);  ///< "openmpi (yield)"; "-": there is none

std::vector<Row> compare(const std::vector<Entry>& entries, const ComparisonPlan& plan, const CoreDistance& distance);

/// In how many rows one of rondo and the best was measured with cores near each other, and one was not.
std::size_t unlike_cells(const std::vector<Row>& rows);

/// Over rows on a path; against the best of the others, or against one. Nothing where no row has both.
struct GeometricMean {
  double ratio = 1;
  std::size_t cells = 0;
};
std::optional<GeometricMean> geometric_mean(const std::vector<Row>& rows, Path path, const std::string& against = "");

/// Which libraries have no time in any row, of those that must: all that were named, or else one at least.
std::vector<std::string> peers_lacking(const std::vector<Row>& rows, const ComparisonPlan& plan);

/// Rows whose ratio is above the limit, and those where rondo was not measured.
std::vector<Row> rows_above(const std::vector<Row>& rows, double limit);

}  // namespace rondo::bench
