#include "bench/pattern.hpp"

namespace rondo::bench {
namespace {

constexpr std::size_t kRankStride = 31;

std::uint64_t mixed(int rank, std::size_t phase) {
  return (phase + kRankStride * static_cast<std::size_t>(rank)) % kPeriod;
}

double fold(ReduceKind kind, double left, double right) {
  const auto a = static_cast<std::uint64_t>(left);
  const auto b = static_cast<std::uint64_t>(right);
  switch (kind) {
    case ReduceKind::prod: return left * right;
    case ReduceKind::min: return std::min(left, right);
    case ReduceKind::max: return std::max(left, right);
    case ReduceKind::band: return static_cast<double>(a & b);
    case ReduceKind::bor: return static_cast<double>(a | b);
    case ReduceKind::bxor: return static_cast<double>(a ^ b);
    case ReduceKind::land: return a != 0 && b != 0 ? 1 : 0;
    case ReduceKind::lor: return a != 0 || b != 0 ? 1 : 0;
    default: return left + right;
  }
}

}  // namespace

double contribution(ReduceKind kind, int rank, int ranks, std::size_t phase) {
  const auto place = static_cast<std::size_t>(rank);
  const auto size = static_cast<std::size_t>(ranks);
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::avg: return static_cast<double>(mixed(rank, phase) % 4);
    case ReduceKind::prod: return place == phase % size ? static_cast<double>(1 + phase) : 1;
    case ReduceKind::land: return place == phase % (size + 1) ? 0 : 1;
    case ReduceKind::lor: return place == phase % (size + 1) ? 1 : 0;
    default: return static_cast<double>(mixed(rank, phase));
  }
}

double combined(ReduceKind kind, int ranks, std::size_t phase) {
  double result = contribution(kind, 0, ranks, phase);
  for (int rank = 1; rank < ranks; ++rank) result = fold(kind, result, contribution(kind, rank, ranks, phase));
  return result;
}

}  // namespace rondo::bench
