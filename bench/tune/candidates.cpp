#include "bench/tune/candidates.hpp"

#include <algorithm>
#include <array>

#include <rondo/algorithm/costs.hpp>

namespace rondo::bench {

Question question_of(Operation operation, std::size_t bytes, Path path, int ranks, int cores) {
  Question question;
  question.collective = facts(operation).collective;
  question.bytes = shape_of(operation, bytes, sizeof(float), ranks).bytes;
  question.ranks = ranks;
  question.oversubscribed = ranks > cores;
  question.one_host = path == Path::shm;
  return question;
}

bool is_pipelined(Collective collective, Algorithm algorithm) {
  constexpr std::uint64_t kCount = 1 << 20;
  constexpr int kRanks = 4;
  const Cost whole = cost_of(collective, algorithm, {kRanks, kCount, 0});
  return cost_of(collective, algorithm, {kRanks, kCount, kCount / 64}) != whole;
}

std::vector<Choice> candidates_for(const Question& question) {
  constexpr std::array<std::size_t, 4> kChunks{16U << 10, 64U << 10, 256U << 10, 1U << 20};
  const Choice chosen = choose(question);
  std::vector<Choice> candidates;
  for (const Algorithm algorithm : every_algorithm_of(question.collective)) {
    if (!is_valid(question, algorithm)) continue;
    candidates.push_back({algorithm, 0});
    if (!is_pipelined(question.collective, algorithm)) continue;
    for (const std::size_t chunk : kChunks) {
      if (chunk < question.bytes) candidates.push_back({algorithm, chunk});
    }
  }
  const bool known = std::find(candidates.begin(), candidates.end(), chosen) != candidates.end();
  if (!known && chosen.chunk_bytes < question.bytes) candidates.push_back(chosen);
  return candidates;
}

Operation operation_of(Collective collective) { return *parse_operation(to_string(collective)); }

Loop loop_of(Operation operation, std::size_t bytes, const Choice& choice) {
  const std::size_t whole = std::max<std::size_t>(bytes, 1);
  return {operation, bytes, choice.algorithm, choice.chunk_bytes == 0 ? whole : choice.chunk_bytes};
}

}  // namespace rondo::bench
