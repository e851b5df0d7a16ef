#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/tuning.hpp>

namespace rondo {
namespace {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;

using enum Algorithm;
using C = Collective;

// Measured with 2, 4 and 8 ranks on 2 cores by `rondo-bench tune`. A line gives way where another is ahead by more than
// a bad run could tell. What the last run took, every algorithm and chunk, is in bench/results/epyc-tune.json; a test
// holds the table to it, and `rondo-bench tune --from` that file prints the table that it alone would make. Over TCP
// double_star with 3, 6 and 16 ranks was measured by hand. The lines for more ranks, and for more than two with a core
// each, follow the algorithms' costs. A chunk of 64 KiB stays in a core's cache on its way through the kernel; one of
// 256 KiB is a fourth of the calls.
//
// In one thing the table does not follow. Over TCP of ranks that share cores, call after call, where ranks run ahead,
// chain takes less than tree for short broadcasts, down to 0.5 of it, and tree less than linear for gather of 256 KiB
// and, among 4, of 1 MiB. A single call, which somebody waits for, takes up to twice as long by chain, and of gather
// among 4 from 128 KiB on 1.3 to 1.5 times as long by tree. (Where the lines below have tree, it takes less either way,
// 0.8 to 0.97 of a single call's time.)
//
// Few bytes: as few messages one after the other as possible; where ranks share cores, as few wake-ups as possible.
// Many bytes: every byte over each link once, in chunks, so that reducing and moving overlap.
//
// The chain's lines answer who wants rank order kept, and those behind a line that answers all whoever asks for that
// algorithm.
//
// Ranks of one host: one wait where that is all, two where the arithmetic is worth sharing out, or a byte is copied
// once instead of twice. That is a matter of the machine for long all_gather and all_to_all: with an AMD EPYC's cores
// beside each other `fetched` took 1.05 to 1.7 times as long as `direct`, with cores far apart 0.7 to 0.9, and 0.6 to
// 0.9 on an Intel Xeon (family 6, model 167).
//
// Between two ranks a broadcast that is laid out goes through little memory, by its chunks: with a root far ahead it
// took 1 to 2.6 times as long for 1 MiB, from run to run, and 2 for 16 MiB, which with their copy fill the caches.
//
// Ranks on several hosts: measured with two network namespaces as hosts, of 2 ranks and 1 core each. Two levels took
// less than every other, or as much as the best, but for gather and short reduce (linear, on so few ranks), and for a
// long all_to_all, of which every block is copied twice more.
constexpr TuningRule kTable[] = {
    // collective, up to bytes, ranks from, to, crowd, {algorithm, chunk bytes}, reach
    {C::all_reduce, 128 * KiB, 2, 2, Crowd::fits, {direct, 0}, Reach::one_host},
    {C::all_reduce, 48 * KiB, 3, 4, Crowd::oversubscribed, {direct, 0}, Reach::one_host},
    {C::all_reduce, 16 * KiB, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_reduce, kAnyBytes, 2, kAnyRanks, Crowd::any, {sliced, 0}, Reach::one_host},
    {C::reduce, 16 * KiB, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::reduce, kAnyBytes, 2, 2, Crowd::any, {direct, 0}, Reach::one_host},
    {C::reduce, kAnyBytes, 3, 8, Crowd::oversubscribed, {direct, 0}, Reach::one_host},
    {C::reduce, kAnyBytes, 2, kAnyRanks, Crowd::any, {sliced, 0}, Reach::one_host},
    {C::broadcast, 128 * KiB, 2, 2, Crowd::fits, {direct, 0}, Reach::one_host},
    {C::broadcast, 16 * MiB, 2, 2, Crowd::fits, {fetched, 64 * KiB}, Reach::one_host},
    {C::broadcast, kAnyBytes, 2, 2, Crowd::fits, {fetched, 0}, Reach::one_host},
    {C::broadcast, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::scatter, 64 * KiB, 2, 2, Crowd::any, {direct, 0}, Reach::one_host},
    {C::scatter, 256 * KiB, 3, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::scatter, kAnyBytes, 2, kAnyRanks, Crowd::any, {fetched, 0}, Reach::one_host},
    {C::scatter, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::gather, 2 * MiB, 2, 2, Crowd::fits, {direct, 0}, Reach::one_host},
    {C::gather, kAnyBytes, 2, 2, Crowd::fits, {fetched, 0}, Reach::one_host},
    {C::gather, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_gather, 128 * KiB, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_gather, kAnyBytes, 2, kAnyRanks, Crowd::any, {adaptive, 0}, Reach::one_host},
    {C::all_gather, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_gather, kAnyBytes, 3, 8, Crowd::oversubscribed, {ring, 1 * MiB}, Reach::one_host},
    {C::reduce_scatter, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_to_all, 128 * KiB, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::all_to_all, kAnyBytes, 2, kAnyRanks, Crowd::any, {adaptive, 0}, Reach::one_host},
    {C::all_to_all, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},
    {C::barrier, kAnyBytes, 2, kAnyRanks, Crowd::any, {direct, 0}, Reach::one_host},

    {C::all_reduce, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::reduce, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::broadcast, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::scatter, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::gather, kAnyBytes, 3, 8, Crowd::any, {linear, 0}, Reach::hosts},
    {C::all_gather, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::reduce_scatter, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::all_to_all, 64 * KiB, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},
    {C::all_to_all, kAnyBytes, 3, 8, Crowd::any, {pairwise, 8 * KiB}, Reach::hosts},
    {C::barrier, kAnyBytes, 3, kAnyRanks, Crowd::any, {two_level, 0}, Reach::hosts},

    {C::all_reduce, 256 * KiB, 1, 2, Crowd::any, {recursive_doubling, 0}},
    {C::all_reduce, kAnyBytes, 1, 2, Crowd::any, {ring, 256 * KiB}},
    {C::all_reduce, 512 * KiB, 3, 16, Crowd::oversubscribed, {double_star, 0}},
    {C::all_reduce, 1 * MiB, 3, 8, Crowd::oversubscribed, {double_star, 0}},
    {C::all_reduce, 1 * MiB, 9, 16, Crowd::oversubscribed, {tree, 256 * KiB}},
    {C::all_reduce, kAnyBytes, 3, 4, Crowd::oversubscribed, {ring, 256 * KiB}},
    {C::all_reduce, kAnyBytes, 3, 8, Crowd::oversubscribed, {tree, 256 * KiB}},
    {C::all_reduce, 32 * KiB, 3, 16, Crowd::oversubscribed, {linear, 0}},
    {C::all_reduce, 8 * KiB, 17, kAnyRanks, Crowd::oversubscribed, {tree, 0}},
    {C::all_reduce, 16 * KiB, 3, 8, Crowd::any, {recursive_doubling, 0}},
    {C::all_reduce, 64 * KiB, 9, 64, Crowd::any, {recursive_doubling, 0}},
    {C::all_reduce, 1 * MiB, 65, 1024, Crowd::any, {recursive_doubling, 0}},
    {C::all_reduce, 16 * MiB, 1025, kAnyRanks, Crowd::any, {recursive_doubling, 0}},
    {C::all_reduce, kAnyBytes, 1, kAnyRanks, Crowd::any, {ring, 64 * KiB}},
    {C::all_reduce, kAnyBytes, 1, kAnyRanks, Crowd::any, {tree, 64 * KiB}},
    {C::all_reduce, kAnyBytes, 1, kAnyRanks, Crowd::any, {chain, 64 * KiB}},

    {C::reduce, 2 * KiB, 3, 4, Crowd::oversubscribed, {linear, 0}},
    {C::reduce, 1 * KiB, 5, 8, Crowd::oversubscribed, {linear, 0}},
    {C::reduce, kAnyBytes, 3, 8, Crowd::oversubscribed, {tree, 1 * MiB}},
    {C::reduce, 8 * KiB, 9, 16, Crowd::oversubscribed, {linear, 0}},
    {C::reduce, kAnyBytes, 1, 2, Crowd::any, {linear, 256 * KiB}},
    {C::reduce, kAnyBytes, 1, 2, Crowd::any, {tree, 256 * KiB}},
    {C::reduce, 256 * KiB, 1, 64, Crowd::any, {tree, 64 * KiB}},
    {C::reduce, 16 * MiB, 65, kAnyRanks, Crowd::any, {tree, 64 * KiB}},
    {C::reduce, kAnyBytes, 3, kAnyRanks, Crowd::any, {ring, 64 * KiB}},
    {C::reduce, kAnyBytes, 1, kAnyRanks, Crowd::any, {tree, 64 * KiB}},
    {C::reduce, kAnyBytes, 1, kAnyRanks, Crowd::any, {chain, 64 * KiB}},
    {C::reduce, kAnyBytes, 3, kAnyRanks, Crowd::any, {linear, 1 * MiB}},

    {C::broadcast, kAnyBytes, 1, 2, Crowd::any, {chain, 0}},
    {C::broadcast, kAnyBytes, 3, 8, Crowd::oversubscribed, {tree, 1 * MiB}},
    {C::broadcast, 256 * KiB, 1, 64, Crowd::any, {tree, 64 * KiB}},
    {C::broadcast, 16 * MiB, 65, kAnyRanks, Crowd::any, {tree, 64 * KiB}},
    {C::broadcast, 1 * MiB, 3, 4, Crowd::any, {chain, 64 * KiB}},
    {C::broadcast, kAnyBytes, 1, kAnyRanks, Crowd::any, {chain, 64 * KiB}},

    {C::scatter, kAnyBytes, 1, 2, Crowd::any, {tree, 0}},
    {C::scatter, 32 * KiB, 3, kAnyRanks, Crowd::oversubscribed, {tree, 0}},
    {C::scatter, 64 * KiB, 9, kAnyRanks, Crowd::fits, {tree, 0}},
    {C::scatter, 1 * MiB, 65, kAnyRanks, Crowd::any, {tree, 0}},
    {C::scatter, kAnyBytes, 1, kAnyRanks, Crowd::any, {linear, 0}},

    {C::gather, 8 * KiB, 3, 4, Crowd::oversubscribed, {linear, 0}},
    {C::gather, 64 * KiB, 3, 4, Crowd::oversubscribed, {tree, 0}},
    {C::gather, 32 * KiB, 5, 8, Crowd::oversubscribed, {linear, 0}},
    {C::gather, 128 * KiB, 5, 8, Crowd::oversubscribed, {tree, 0}},
    {C::gather, 64 * KiB, 9, kAnyRanks, Crowd::fits, {tree, 0}},
    {C::gather, 1 * MiB, 65, kAnyRanks, Crowd::any, {tree, 0}},
    {C::gather, kAnyBytes, 1, kAnyRanks, Crowd::any, {linear, 0}},

    {C::all_gather, 128 * KiB, 5, 8, Crowd::oversubscribed, {linear, 0}},
    {C::all_gather, 32 * KiB, 3, 16, Crowd::oversubscribed, {linear, 0}},
    {C::all_gather, 256 * KiB, 3, 4, Crowd::oversubscribed, {bruck, 0}},
    {C::all_gather, 128 * KiB, 3, 4, Crowd::any, {bruck, 0}},
    {C::all_gather, 256 * KiB, 5, 64, Crowd::any, {bruck, 0}},
    {C::all_gather, 16 * MiB, 65, kAnyRanks, Crowd::any, {bruck, 0}},
    {C::all_gather, kAnyBytes, 1, 2, Crowd::any, {ring, 256 * KiB}},
    {C::all_gather, kAnyBytes, 3, 8, Crowd::oversubscribed, {ring, 256 * KiB}},
    {C::all_gather, kAnyBytes, 1, kAnyRanks, Crowd::any, {ring, 64 * KiB}},

    {C::reduce_scatter, 128 * KiB, 5, 8, Crowd::oversubscribed, {linear, 0}},
    {C::reduce_scatter, 512 * KiB, 5, 8, Crowd::oversubscribed, {tree, 0}},
    {C::reduce_scatter, 64 * KiB, 3, 16, Crowd::oversubscribed, {linear, 0}},
    {C::reduce_scatter, kAnyBytes, 3, 8, Crowd::oversubscribed, {ring, 256 * KiB}},
    {C::reduce_scatter, 16 * KiB, 3, 4, Crowd::any, {tree, 0}},
    {C::reduce_scatter, 64 * KiB, 5, 64, Crowd::any, {tree, 0}},
    {C::reduce_scatter, 1 * MiB, 65, kAnyRanks, Crowd::any, {tree, 0}},
    {C::reduce_scatter, kAnyBytes, 1, 2, Crowd::any, {ring, 256 * KiB}},
    {C::reduce_scatter, kAnyBytes, 1, kAnyRanks, Crowd::any, {ring, 64 * KiB}},
    {C::reduce_scatter, kAnyBytes, 1, kAnyRanks, Crowd::any, {tree, 0}},
    {C::reduce_scatter, kAnyBytes, 1, kAnyRanks, Crowd::any, {chain, 64 * KiB}},

    {C::all_to_all, 64 * KiB, 5, 8, Crowd::oversubscribed, {linear, 0}},
    {C::all_to_all, 32 * KiB, 3, 4, Crowd::oversubscribed, {linear, 0}},
    {C::all_to_all, 8 * KiB, 3, 16, Crowd::oversubscribed, {linear, 0}},
    {C::all_to_all, 1 * MiB, 3, 4, Crowd::oversubscribed, {pairwise, 1 * MiB}},
    {C::all_to_all, 256 * KiB, 5, 8, Crowd::oversubscribed, {pairwise, 64 * KiB}},
    {C::all_to_all, kAnyBytes, 1, kAnyRanks, Crowd::any, {pairwise, 8 * KiB}},
    {C::barrier, kAnyBytes, 3, 16, Crowd::oversubscribed, {double_star, 0}},
    {C::barrier, kAnyBytes, 1, kAnyRanks, Crowd::any, {dissemination, 0}},
};

/// Whether it is for the host's memory alone.
bool is_of_host(Algorithm algorithm) { return algorithm == fetched || algorithm == adaptive; }

/// Whether it combines from the left, in rank order. (Linear reduce does so only towards rank 0, as in
/// all_reduce and reduce_scatter.)
bool keeps_order(Collective collective, Algorithm algorithm) {
  const bool towards_first = collective == C::all_reduce || collective == C::reduce_scatter;
  return algorithm == chain || shares_memory(algorithm) || (towards_first && algorithm == linear);
}

/// Whether two levels take the ranks of a host for neighbours.
bool needs_order(const Question& question) {
  const bool anywhere = question.collective == C::barrier || question.collective == C::broadcast ||
                        question.collective == C::all_reduce || question.collective == C::reduce;
  return !anywhere || (reduces(question.collective) && !question.commutative);
}

bool has_fitting_hosts(const Question& question) {
  if (!question.hosts || (needs_order(question) && !question.hosts_in_order)) return false;
  return question.collective != C::all_to_all || (question.hosts_alike && !question.by_counts);
}

bool fits(const TuningRule& rule, const Question& question) {
  return rule.collective == question.collective && question.bytes <= rule.up_to_bytes &&
         rule.ranks_from <= question.ranks && question.ranks <= rule.ranks_to &&
         (rule.crowd == Crowd::any || (rule.crowd == Crowd::oversubscribed) == question.oversubscribed) &&
         reaches(rule.reach, question) && is_valid(question, rule.choice.algorithm);
}

const TuningRule* find_rule(std::span<const TuningRule> rules, const Question& question, Algorithm algorithm) {
  for (const TuningRule& rule : rules) {
    if (fits(rule, question) && (algorithm == automatic || rule.choice.algorithm == algorithm)) return &rule;
  }
  return nullptr;
}

/// A chunk size for an algorithm that somebody asked for where the table would not take it.
std::size_t usual_chunk_bytes(Collective collective, Algorithm algorithm) {
  if (shares_memory(algorithm)) return 0;
  std::size_t bytes = 0;
  for (const TuningRule& rule : kTable) {
    if (rule.collective == collective && rule.choice.algorithm == algorithm)
      bytes = std::max(bytes, rule.choice.chunk_bytes);
  }
  return bytes;
}

/// The table was measured in the host's memory. On a device that ranks share one for all makes the fewest changes
/// between processes, and a kernel takes microseconds to begin: it is given more at a time.
Choice choice_for_device(const Question& question, Algorithm wanted, Choice choice) {
  constexpr std::size_t kDeviceChunkBytes = 4 * MiB;
  if (choice.chunk_bytes != 0) choice.chunk_bytes = std::max(choice.chunk_bytes, kDeviceChunkBytes);
  if (wanted == automatic && shares_memory(choice.algorithm) && is_valid(question, leader)) choice.algorithm = leader;
  return choice;
}

Choice choice_of_table(const Question& question, Algorithm wanted) {
  const TuningRule* const rule = find_rule(kTable, question, wanted);
  const Choice choice = rule != nullptr ? rule->choice : Choice{wanted, usual_chunk_bytes(question.collective, wanted)};
  return question.on_device ? choice_for_device(question, wanted, choice) : choice;
}

std::string names(std::span<const Algorithm> algorithms) {
  std::string text;
  for (const Algorithm algorithm : algorithms) {
    if (!text.empty()) text += ", ";
    text += to_string(algorithm);
  }
  return text;
}

std::string names_for(const Question& question) {
  std::vector<Algorithm> possible;
  for (const auto& algorithms : {algorithms_of(question.collective), shared_algorithms_of(question.collective)}) {
    std::copy_if(algorithms.begin(), algorithms.end(), std::back_inserter(possible),
                 [&](Algorithm algorithm) { return is_valid(question, algorithm); });
  }
  for (const Algorithm algorithm : {two_level, leader}) {
    if (is_valid(question, algorithm)) possible.push_back(algorithm);
  }
  return names(possible);
}

/// What it is about the counts or the ranks that rules an algorithm out; empty: nothing.
std::string_view whose(const Question& question, Algorithm asked) {
  if (question.by_counts && asked != direct) return " by counts";
  if (asked == leader && !question.on_device) return " in the host's memory";
  if (is_of_host(asked) && question.on_device) return " in the memory of devices";
  if (shares_memory(asked) && !question.one_host) return " among ranks that do not share memory";
  if (asked != two_level || !has_two_levels(question.collective) || question.deterministic) return "";
  if (!question.hosts) return " among ranks that are not on several hosts, or each on its own";
  if (question.hosts_in_order) return " among hosts that differ in how many ranks they have";
  return " among ranks whose hosts are not in rank order";
}

}  // namespace

std::span<const TuningRule> tuning_table() noexcept { return kTable; }

bool is_valid(const Question& question, Algorithm algorithm) noexcept {
  if (question.deterministic && reduces(question.collective) && !keeps_order(question.collective, algorithm))
    return false;
  // Each rank knows its own counts alone.
  const bool must_know_all =
      algorithm == linear || (shares_memory(algorithm) && (algorithm != direct || question.on_device));
  if (question.by_counts && question.collective == C::all_to_all && must_know_all) return false;
  if (algorithm == two_level) {
    return has_two_levels(question.collective) && has_fitting_hosts(question);
  }
  if (question.on_device ? is_of_host(algorithm) : algorithm == leader) return false;
  if (!shares_memory(algorithm)) return is_valid(question.collective, algorithm, question.commutative);
  return question.one_host && has_algorithm(question.collective, algorithm);
}

bool is_valid(Collective collective, Algorithm algorithm, bool commutative) noexcept {
  if (reduces(collective) && !commutative && algorithm == ring) return false;
  const auto algorithms = algorithms_of(collective);
  return std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
}

Choice choose(const Question& question, Algorithm asked, Algorithm preferred, std::size_t chunk_bytes,
              std::span<const TuningRule> own) {
  if (asked != automatic && !is_valid(question, asked)) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}{}{}{} has no algorithm {}, wanted {}", to_string(question.collective),
                            question.commutative ? "" : " with an operator that does not commute",
                            question.deterministic ? " with Options::deterministic" : "", whose(question, asked),
                            to_string(asked), names_for(question)));
  }
  Algorithm wanted = asked;
  if (wanted == automatic && preferred != automatic && is_valid(question, preferred)) wanted = preferred;

  const TuningRule* const rule = find_rule(own, question, wanted);
  Choice choice = rule != nullptr ? rule->choice : choice_of_table(question, wanted);
  if (chunk_bytes != 0) choice.chunk_bytes = chunk_bytes;
  return choice;
}

}  // namespace rondo
