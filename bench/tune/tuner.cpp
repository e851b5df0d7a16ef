#include "bench/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "bench/compare/core_distance.hpp"
#include "bench/statistics.hpp"
#include "bench/tune/candidates.hpp"

namespace rondo::bench {
namespace {

constexpr double kAsGood = 1.05;

bool same(const Choice& one, const Choice& other) {
  return one.algorithm == other.algorithm && one.chunk_bytes == other.chunk_bytes;
}

std::optional<double> time_of(const Answered& answer, const Choice& choice) {
  for (const auto& [candidate, time] : answer.microseconds) {
    if (same(candidate, choice)) return time;
  }
  return std::nullopt;
}

const std::pair<Choice, double>& best_of(const Answered& answer) {
  return *std::min_element(answer.microseconds.begin(), answer.microseconds.end(),
                           [](const auto& one, const auto& other) { return one.second < other.second; });
}

/// The best, unless `before` is about as good.
Choice winner(const Answered& answer, const std::optional<Choice>& before) {
  const auto& [best, shortest] = best_of(answer);
  if (before) {
    const auto time = time_of(answer, *before);
    if (time && *time <= kAsGood * shortest) return *before;
  }
  return best;
}

/// A power of two between them.
std::uint64_t middle(std::uint64_t smaller, std::uint64_t larger) {
  const double exponent = (std::log2(static_cast<double>(smaller)) + std::log2(static_cast<double>(larger))) / 2;
  return std::clamp(static_cast<std::uint64_t>(std::exp2(std::floor(exponent))), smaller, larger);
}

/// What must be the same for two questions to be neighbours in size.
auto line_of(const Question& question) {
  return std::tuple(question.collective, question.one_host, question.ranks, question.oversubscribed);
}

/// The rules of questions that are neighbours in size, for their number of ranks alone.
std::vector<TuningRule> rules_of_line(const std::vector<Answered>& line) {
  std::vector<TuningRule> rules;
  std::optional<Choice> before;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const Question& question = line[i].question;
    const Choice choice = winner(line[i], before);
    if (before && !same(*before, choice)) rules.back().up_to_bytes = middle(line[i - 1].question.bytes, question.bytes);
    if (!before || !same(*before, choice)) {
      rules.push_back({question.collective, kAnyBytes, question.ranks, question.ranks,
                       question.oversubscribed ? Crowd::oversubscribed : Crowd::fits, choice,
                       question.one_host ? Reach::one_host : Reach::any});
    }
    before = choice;
  }
  return rules;
}

bool agree(const std::vector<TuningRule>& one, const std::vector<TuningRule>& other) {
  const auto equal = [](const TuningRule& a, const TuningRule& b) {
    return a.collective == b.collective && a.up_to_bytes == b.up_to_bytes && a.crowd == b.crowd && a.reach == b.reach &&
           same(a.choice, b.choice);
  };
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), equal);
}

Command command_for(Path path, int ranks, const LoopSettings& loops) {
  Contender rondo;
  rondo.command = rondo_loops({{"RONDO_TRANSPORT", path == Path::shm ? "auto" : "tcp"}});
  return rondo.command_for(ranks, loops);
}

}  // namespace

std::vector<Question> questions_for(const TuningPlan& plan, Path path, int ranks) {
  std::vector<Question> questions;
  for (const Operation operation : plan.operations) {
    for (const std::size_t size : plan.sizes) {
      const Question question = question_of(operation, size, path, ranks, plan.cores);
      const bool known = !questions.empty() && questions.back().collective == question.collective &&
                         questions.back().bytes == question.bytes;
      if (!known) questions.push_back(question);
    }
  }
  return questions;
}

std::vector<Loop> hopeful_loops(const Question& question, const Series& measured, const CoreDistance& distance) {
  constexpr double kFarBehind = 2;
  std::vector<Loop> loops;
  double best = std::numeric_limits<double>::infinity();
  const auto least = [&](const Loop& loop) -> std::optional<double> {
    const std::vector<double> times = measured.near_times_of(loop, distance);
    if (times.empty()) return std::nullopt;
    return *std::min_element(times.begin(), times.end());
  };
  for (const Choice& choice : candidates_for(question)) {
    loops.push_back(loop_of(operation_of(question.collective), question.bytes, choice));
    if (!measured.troubles.contains(loops.back())) best = std::min(best, least(loops.back()).value_or(best));
  }
  std::erase_if(loops, [&](const Loop& loop) { return least(loop).value_or(best) > kFarBehind * best; });
  return loops;
}

std::map<std::pair<Algorithm, std::size_t>, std::vector<Loop>> jobs_of(const std::vector<Loop>& loops) {
  std::map<std::pair<Algorithm, std::size_t>, std::vector<Loop>> jobs;
  for (const Loop& loop : loops) jobs[{loop.algorithm, loop.chunk_bytes}].push_back(loop);
  return jobs;
}

std::vector<Answered> measure_candidates(const TuningPlan& plan) {
  std::map<std::pair<Path, int>, Series> measured;
  CoreDistance distance;
  for (int round = 1; round <= plan.rounds; ++round) {
    for (const int ranks : plan.ranks) {
      for (const Path path : plan.paths) {
        std::vector<Loop> loops;
        for (const Question& question : questions_for(plan, path, ranks)) {
          const std::vector<Loop> some = hopeful_loops(question, measured[{path, ranks}], distance);
          loops.insert(loops.end(), some.begin(), some.end());
        }
        fmt::print(stderr, "round {} of {}: {}, {} ranks, {} loops\n", round, plan.rounds, to_string(path), ranks,
                   loops.size());
        const auto command = [&](const std::vector<Loop>& some) {
          return command_for(path, ranks, {some, plan.seconds, 0, plan.allocate});
        };
        for (const auto& [choice, job] : jobs_of(loops))
          run_series(job, plan.limits, command, measured[{path, ranks}], distance);
      }
    }
  }

  std::vector<Answered> answers;
  for (const auto& [place, series] : measured) {
    for (const auto& [loop, trouble] : series.troubles)
      fmt::print("# {} ranks, {}: {}: {}\n", place.second, to_string(place.first), to_string(loop), trouble);
    for (const Question& question : questions_for(plan, place.first, place.second)) {
      Answered answer{question, {}};
      for (const Choice& choice : candidates_for(question)) {
        const Loop loop = loop_of(operation_of(question.collective), question.bytes, choice);
        const std::vector<double> times = series.times_of(loop, distance);
        if (!times.empty() && !series.troubles.contains(loop))
          answer.microseconds.emplace_back(choice, summarise(times).p50);
      }
      if (!answer.microseconds.empty()) answers.push_back(std::move(answer));
    }
  }
  return answers;
}

std::vector<TuningRule> rules_for(const std::vector<Answered>& answers) {
  using Neighbours = decltype(line_of(Question()));
  std::map<Neighbours, std::vector<Answered>> lines;  // by collective, reach, ranks
  for (const Answered& answer : answers) lines[line_of(answer.question)].push_back(answer);

  std::vector<TuningRule> rules;
  std::vector<TuningRule> last;  // of the number of ranks before
  const auto flush = [&] { rules.insert(rules.end(), last.begin(), last.end()); };
  for (auto& [line, of_line] : lines) {
    std::stable_sort(of_line.begin(), of_line.end(),
                     [](const Answered& a, const Answered& b) { return a.question.bytes < b.question.bytes; });
    std::vector<TuningRule> next = rules_of_line(of_line);
    const bool continues = !last.empty() && last[0].collective == next[0].collective && last[0].reach == next[0].reach;
    const int from = continues ? last[0].ranks_to + 1 : std::min(2, next[0].ranks_to);
    if (continues && agree(last, next)) {
      for (TuningRule& rule : last) rule.ranks_to = next[0].ranks_to;
      continue;
    }
    flush();
    for (TuningRule& rule : next) rule.ranks_from = from;
    last = std::move(next);
  }
  flush();
  // Ranks of one host are asked for first; what is for any would answer them too.
  std::stable_partition(rules.begin(), rules.end(),
                        [](const TuningRule& rule) { return rule.reach == Reach::one_host; });
  return rules;
}

std::optional<double> loss_of_table(const Answered& answer) {
  const Choice chosen = choose(answer.question);
  const auto time = time_of(answer, chosen.chunk_bytes < answer.question.bytes ? chosen : Choice{chosen.algorithm, 0});
  if (!time) return std::nullopt;
  return *time / best_of(answer).second;
}

Worth worth_of_table(const std::vector<Answered>& answers) {
  Worth worth;
  double logarithms = 0;
  for (const Answered& answer : answers) {
    const auto loss = loss_of_table(answer);
    if (!loss) continue;
    logarithms += std::log(*loss);
    ++worth.questions;
    if (worth.questions == 1 || *loss > worth.most)
      std::tie(worth.most, worth.where) = std::tuple(*loss, answer.question);
  }
  if (worth.questions > 0) worth.mean = std::exp(logarithms / worth.questions);
  return worth;
}

}  // namespace rondo::bench
