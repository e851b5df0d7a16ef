#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <rondo/tuning.hpp>

#include "bench/compare/contender.hpp"
#include "bench/compare/series.hpp"

namespace rondo::bench {

struct TuningPlan {
  std::vector<Path> paths;
  std::vector<Operation> operations;
  std::vector<std::size_t> sizes;  ///< ascending
  std::vector<int> ranks;          ///< ascending
  int rounds = 3;
  double seconds = 0.05;
  Limits limits;
  int cores = 1;
  bool allocate = false;  ///< buffers from rondo::allocate
};

/// One question of the plan, and the median time of each candidate that has one.
struct Answered {
  Question question;
  std::vector<std::pair<Choice, double>> microseconds;
};

/// All questions of the plan on one path with so many ranks. Sizes that round to the same bytes are one question.
std::vector<Question> questions_for(const TuningPlan& plan, Path path, int ranks);

/// The loops of a question's candidates, without those whose best time is more than twice that of the best.
std::vector<Loop> hopeful_loops(const Question& question, const Series& measured, const CoreDistance& distance);

/// The loops of each choice, by algorithm and chunk, which have a job of their own: what others leave behind in the
/// system's connections changes what the next takes.
std::map<std::pair<Algorithm, std::size_t>, std::vector<Loop>> jobs_of(const std::vector<Loop>& loops);

/// Runs every candidate of every question of the plan, round after round, as long as it is hopeful.
std::vector<Answered> measure_candidates(const TuningPlan& plan);

/// The rules that the answers ask for, in the order of a table. The questions of a collective, path and number of ranks
/// are neighbours in size: a rule that is within 5% of the best goes on, and a bound between two sizes lies in their
/// middle. Neighbours in ranks that agree become one rule. A rule holds from the ranks above the next smaller measured
/// number (or from 2) up to its own, the last in size for all sizes.
std::vector<TuningRule> rules_for(const std::vector<Answered>& answers);

/// How many times as long as the best candidate the one that rondo's own table chooses takes. Nothing: it was not
/// measured.
std::optional<double> loss_of_table(const Answered& answer);

/// That of all questions that have it.
struct Worth {
  int questions = 0;
  double mean = 1;  ///< geometric
  double most = 1;
  Question where;  ///< of the most
};
Worth worth_of_table(const std::vector<Answered>& answers);

}  // namespace rondo::bench
