#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <rondo/call.hpp>
#include <rondo/export.hpp>

namespace rondo {

/// What the choice depends on. Every rank must ask the same question, or the ranks run different algorithms.
struct Question {
  Collective collective = Collective::none;
  std::uint64_t bytes = 0;      ///< of the plan's blocks together: the whole vector, not a rank's share
  int ranks = 1;                ///< size of the communicator
  bool oversubscribed = false;  ///< more ranks than usable cores on some host
  bool commutative = true;      ///< the operator of a reduction
  bool one_host = false;        ///< all ranks may share memory
  bool deterministic = false;   ///< a reduction combines from the left, in rank order
  bool hosts = false;           ///< they are on several hosts, and on some not alone
  bool hosts_in_order = false;  ///< and the ranks of each host are neighbours
};

struct Choice {
  Algorithm algorithm = Algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< of the pipeline; 0: all in one piece
};

/// When a rule of the table applies: ranks have a core each, share cores, or either.
enum class Crowd : std::uint8_t { any, fits, oversubscribed };

/// When a rule applies: to ranks that all share memory only, or to those on several hosts where some do, or to any.
enum class Reach : std::uint8_t { any, one_host, hosts };

constexpr bool reaches(Reach reach, const Question& question) noexcept {
  return reach == Reach::any || (reach == Reach::one_host ? question.one_host : question.hosts);
}

/// One line of the table. The first line that fits a question and whose algorithm is allowed answers it.
struct TuningRule {
  Collective collective;
  std::uint64_t up_to_bytes;
  int ranks_from;
  int ranks_to;
  Crowd crowd;
  Choice choice;
  Reach reach = Reach::any;
};

inline constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();
inline constexpr int kAnyRanks = std::numeric_limits<int>::max();

/// The table itself, in the order in which it is searched.
RONDO_EXPORT std::span<const TuningRule> tuning_table() noexcept;

/// The algorithms of a collective that work by messages; the first is the one that always works.
RONDO_EXPORT std::span<const Algorithm> algorithms_of(Collective collective) noexcept;
/// Those that ranks which share memory have beside them.
RONDO_EXPORT std::span<const Algorithm> shared_algorithms_of(Collective collective) noexcept;
/// Of the second kind, whatever the collective.
constexpr bool shares_memory(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::direct || algorithm == Algorithm::sliced;
}
/// Whether ranks on several hosts have `two_level` beside those by messages.
RONDO_EXPORT bool has_two_levels(Collective collective) noexcept;

/// Whether `algorithm` computes `collective` correctly by messages; ring reductions take operators that commute.
RONDO_EXPORT bool is_valid(Collective collective, Algorithm algorithm, bool commutative = true) noexcept;
/// The same for ranks that a question tells more of.
RONDO_EXPORT bool is_valid(const Question& question, Algorithm algorithm) noexcept;

/// The decision. `asked` for in the call comes first: Error(invalid_argument) if it cannot serve the question. Then
/// what is `preferred` (RONDO_ALGORITHM), where it is possible; then the table. `chunk_bytes` other than 0 replaces the
/// table's.
RONDO_EXPORT Choice choose(const Question& question, Algorithm asked = Algorithm::automatic,
                           Algorithm preferred = Algorithm::automatic, std::size_t chunk_bytes = 0);

/// The table as text, a line per rule.
RONDO_EXPORT std::string print_tuning_table();

}  // namespace rondo
