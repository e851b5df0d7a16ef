#include "bench/operation.hpp"

#include <algorithm>
#include <array>

namespace rondo::bench {
namespace {

constexpr std::array<OperationFacts, 11> kOperations{{
    // operation, name, collective, reduces, rooted, in place, in blocks, synchronises
    {Operation::latency, "latency", Collective::none, false, false, false, false, false},
    {Operation::bandwidth, "bandwidth", Collective::none, false, false, false, false, false},
    {Operation::all_reduce, "all_reduce", Collective::all_reduce, true, false, true, false, true},
    {Operation::reduce, "reduce", Collective::reduce, true, true, true, false, false},
    {Operation::broadcast, "broadcast", Collective::broadcast, false, true, true, false, false},
    {Operation::scatter, "scatter", Collective::scatter, false, true, true, true, false},
    {Operation::gather, "gather", Collective::gather, false, true, true, true, false},
    {Operation::all_gather, "all_gather", Collective::all_gather, false, false, true, true, true},
    {Operation::reduce_scatter, "reduce_scatter", Collective::reduce_scatter, true, false, true, true, true},
    {Operation::all_to_all, "all_to_all", Collective::all_to_all, false, false, true, true, true},
    {Operation::barrier, "barrier", Collective::barrier, false, false, false, false, true},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (static_cast<std::size_t>(kOperations[i].operation) != i) return false;
  }
  return true;
}
static_assert(in_order(), "kOperations is indexed by Operation");

}  // namespace

const OperationFacts& facts(Operation operation) { return kOperations[static_cast<std::size_t>(operation)]; }

std::optional<Operation> parse_operation(std::string_view text) {
  const auto* const found = std::find_if(kOperations.begin(), kOperations.end(),
                                         [&](const OperationFacts& entry) { return entry.name == text; });
  if (found == kOperations.end()) return std::nullopt;
  return found->operation;
}

std::string known_operations() {
  std::string names;
  for (const auto& entry : kOperations) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * others;
    case Operation::scatter:
    case Operation::gather:
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return others;
    case Operation::barrier: return 0;
    default: return 1;
  }
}

double memory_factor(Operation operation, int ranks) {
  const double all = ranks;
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_to_all: return 2 * all;
    case Operation::reduce:
    case Operation::reduce_scatter:
    case Operation::all_gather: return all + 1;
    case Operation::broadcast: return all;  // the root's is not written
    case Operation::barrier: return 0;
    default: return 2;
  }
}

Shape shape_of(Operation operation, std::size_t bytes, std::size_t element_bytes, int ranks) {
  if (operation == Operation::barrier || bytes == 0) return {};
  const std::size_t blocks = facts(operation).in_blocks ? static_cast<std::size_t>(ranks) : 1;
  const std::size_t count = std::max<std::size_t>(bytes / element_bytes / blocks, 1);
  return {count, count * blocks * element_bytes};
}

}  // namespace rondo::bench
