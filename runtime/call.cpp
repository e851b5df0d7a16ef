#include <array>
#include <vector>

#include <fmt/format.h>

#include <rondo/call.hpp>

#include "runtime/rank_list.hpp"

namespace rondo {
namespace {

constexpr std::array<std::string_view, 12> kCollectives{"message",    "all_reduce", "reduce",     "broadcast",
                                                        "scatter",    "gather",     "all_gather", "reduce_scatter",
                                                        "all_to_all", "barrier",    "subgroup",   "allocate"};
constexpr std::array<std::string_view, 16> kAlgorithms{
    "automatic",     "ring",        "tree",      "recursive_doubling",
    "chain",         "linear",      "bruck",     "pairwise",
    "dissemination", "double_star", "direct",    "sliced",
    "fetched",       "adaptive",    "two_level", "leader"};
constexpr std::array<std::string_view, 12> kReduceKinds{"none", "sum", "prod", "min",  "max", "avg",
                                                        "band", "bor", "bxor", "land", "lor", "custom"};

static_assert(kCollectives.size() == static_cast<std::size_t>(Collective::allocate) + 1);
static_assert(kAlgorithms.size() == static_cast<std::size_t>(Algorithm::leader) + 1);
static_assert(kReduceKinds.size() == static_cast<std::size_t>(ReduceKind::custom) + 1);

/// Values may come from the wire, so an index past the end has a name too.
template <typename Enum, std::size_t Size>
std::string_view name(const std::array<std::string_view, Size>& names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < Size ? names[index] : "unknown";
}

template <typename Enum, std::size_t Size>
std::optional<Enum> parse(const std::array<std::string_view, Size>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < Size; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::string members(std::uint64_t bits) {
  std::vector<int> ranks;
  for (int rank = 0; bits != 0; ++rank, bits >>= 1) {
    if ((bits & 1) != 0) ranks.push_back(rank);
  }
  return detail::rank_list(ranks);
}

std::string hashed_arguments(const Call& call) {
  if (call.collective == Collective::subgroup) return call.count == 0 ? "ranks" : members(call.count);
  return call.reduce == ReduceKind::custom ? "an operator" : "counts per rank";
}

}  // namespace

std::string_view to_string(Collective collective) noexcept { return name(kCollectives, collective); }
std::string_view to_string(Algorithm algorithm) noexcept { return name(kAlgorithms, algorithm); }
std::string_view to_string(ReduceKind kind) noexcept { return name(kReduceKinds, kind); }

std::optional<Collective> parse_collective(std::string_view text) noexcept {
  return parse<Collective>(kCollectives, text);
}

std::optional<Algorithm> parse_algorithm(std::string_view text) noexcept { return parse<Algorithm>(kAlgorithms, text); }

std::string to_string(const Call& call) {
  std::string text(to_string(call.collective));
  std::string_view separator = "(";
  const auto add = [&](const std::string& fact) {
    text += separator;
    text += fact;
    separator = ", ";
  };
  if (call.element_bytes > 0) {
    const bool sized = call.type == ElementType::custom;
    add(sized ? fmt::format("custom of {} bytes x {}", call.element_bytes, call.count)
              : fmt::format("{} x {}", to_string(call.type), call.count));
  }
  if (call.collective == Collective::allocate) add(fmt::format("{} bytes", call.count));
  if (call.reduce != ReduceKind::none) add(std::string(to_string(call.reduce)));
  if (call.root >= 0) add(fmt::format("root {}", call.root));
  if (call.algorithm != Algorithm::automatic) add(std::string(to_string(call.algorithm)));
  if (call.chunk_bytes > 0) add(fmt::format("chunk {}", call.chunk_bytes));
  std::uint64_t bits = call.reduce != ReduceKind::none ? Call::kDeterministic : 0;
  if (call.element_bytes > 0) bits |= Call::kOnDevice | Call::kOnEither;
  bits &= call.extra;
  if ((bits & Call::kDeterministic) != 0) add("deterministic");
  if ((bits & Call::kOnDevice) != 0) add("on a device");
  if ((bits & Call::kOnEither) != 0) add("of any_spans");
  // What has no field is not known here, but the texts of two calls that differ must not read alike.
  const std::uint64_t hash = call.extra & ~bits;
  if (hash != 0) add(fmt::format("{} of checksum {:08x}", hashed_arguments(call), hash & 0xffffffffU));
  text += separator == "(" ? "()" : ")";
  return text;
}

}  // namespace rondo
