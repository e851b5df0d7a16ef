#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rondo/algorithms.hpp>
#include <rondo/export.hpp>
#include <rondo/tuning_rules.hpp>

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
  bool hosts_alike = false;     ///< and each has as many
  bool on_device = false;       ///< the buffers are of devices
  bool by_counts = false;       ///< all_to_all whose blocks are not all of one length: no rank knows all of them
};

constexpr bool reaches(Reach reach, const Question& question) noexcept {
  return reach == Reach::any || (reach == Reach::one_host ? question.one_host : question.hosts);
}

/// The table itself, in the order in which it is searched.
RONDO_EXPORT std::span<const TuningRule> tuning_table() noexcept;

/// Whether `algorithm` computes `collective` correctly by messages; ring reductions take operators that commute.
RONDO_EXPORT bool is_valid(Collective collective, Algorithm algorithm, bool commutative = true) noexcept;
/// The same for ranks that a question tells more of.
RONDO_EXPORT bool is_valid(const Question& question, Algorithm algorithm) noexcept;

/// The decision. `asked` for in the call comes first: Error(invalid_argument) if it cannot serve the question. Then
/// what is `preferred` (RONDO_ALGORITHM), where it is possible; then the user's `own` rules (RONDO_TUNING_FILE), then
/// the table, of which `direct` and `sliced` mean `leader` on devices where there is that, and chunks are longer there.
/// `fetched` and `adaptive` are for the host's memory alone.
/// `chunk_bytes` other than 0 replaces the rule's.
RONDO_EXPORT Choice choose(const Question& question, Algorithm asked = Algorithm::automatic,
                           Algorithm preferred = Algorithm::automatic, std::size_t chunk_bytes = 0,
                           std::span<const TuningRule> own = {});

}  // namespace rondo
