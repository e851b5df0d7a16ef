#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/export.hpp>

namespace rondo {

struct Choice {
  Algorithm algorithm = Algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< of the pipeline; 0: all in one piece
  bool operator==(const Choice&) const = default;
};

/// When a rule of the table applies: ranks have a core each, share cores, or either.
enum class Crowd : std::uint8_t { any, fits, oversubscribed };

/// When a rule applies: to ranks that all share memory only, or to those on several hosts where some do, or to any.
enum class Reach : std::uint8_t { any, one_host, hosts };

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

RONDO_EXPORT std::string_view to_string(Crowd crowd) noexcept;
RONDO_EXPORT std::string_view to_string(Reach reach) noexcept;

/// A line per rule, in the order in which they are searched, below one that names the columns.
///
///     # collective       up_to      ranks  on        crowd           algorithm             chunk
///     all_reduce            4K      2-any  one_host  any             direct                whole
///     broadcast            any        3-8  any       oversubscribed  chain                   64K
RONDO_EXPORT std::string print_tuning_rules(std::span<const TuningRule> rules);

/// Reads that again; what stands behind # is skipped, and so are empty lines. Throws Error{bad_configuration}: `name`,
/// the line, what it says, what is wanted.
RONDO_EXPORT std::vector<TuningRule> parse_tuning_rules(std::string_view text, std::string_view name);

/// The rules in a file, RONDO_TUNING_FILE; none, if its name is empty. Throws Error{bad_configuration}.
RONDO_EXPORT std::vector<TuningRule> read_tuning_rules(const std::string& path);

/// What ranks tell each other of their rules: "no rules", "12 rules of checksum 0123abcd".
RONDO_EXPORT std::string tuning_summary(std::span<const TuningRule> rules);

}  // namespace rondo
