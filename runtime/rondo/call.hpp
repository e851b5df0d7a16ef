#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <rondo/element_type.hpp>
#include <rondo/export.hpp>

namespace rondo {

enum class Collective : std::uint8_t {
  none,  ///< a point-to-point message
  all_reduce,
  reduce,
  broadcast,
  scatter,
  gather,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier,
  subgroup,  ///< making a communicator: subgroup, split, dup
  allocate,  ///< memory that the ranks of a communicator share
};

enum class Algorithm : std::uint8_t {
  automatic,  ///< the tuning table decides
  ring,
  tree,
  recursive_doubling,
  chain,
  linear,
  bruck,
  pairwise,
  dissemination,
  double_star,
  direct,     ///< of ranks that share memory: everyone reads what the others lay out
  sliced,     ///< the same, each rank combining its slice for all
  fetched,    ///< of ranks that share memory: who needs a block has the system copy it out of its owner's memory
  adaptive,   ///< direct or fetched: both are tried out in turn, and all ranks take the faster
  two_level,  ///< of ranks on several hosts: in shared memory on each, by messages between them
  leader,     ///< of buffers on a device that ranks share: one does all for all
};

enum class ReduceKind : std::uint8_t { none, sum, prod, min, max, avg, band, bor, bxor, land, lor, custom };

RONDO_EXPORT std::string_view to_string(Collective collective) noexcept;
RONDO_EXPORT std::string_view to_string(Algorithm algorithm) noexcept;
RONDO_EXPORT std::string_view to_string(ReduceKind kind) noexcept;
RONDO_EXPORT std::optional<Collective> parse_collective(std::string_view text) noexcept;
RONDO_EXPORT std::optional<Algorithm> parse_algorithm(std::string_view text) noexcept;

/// What one collective call says of itself. It travels in every frame of the collective, so that calls which differ
/// are found out at the first frame and both can be named. Trivially copyable, 32 bytes, no padding.
struct Call {
  Collective collective = Collective::none;
  Algorithm algorithm = Algorithm::automatic;
  ElementType type = ElementType::bytes;
  ReduceKind reduce = ReduceKind::none;
  std::int32_t root = -1;   ///< -1: the collective has none
  std::uint64_t count = 0;  ///< elements, of the v-forms the total; allocate: bytes; subgroup: a bit for each rank
  std::uint32_t chunk_bytes = 0;  ///< of the pipeline
  std::uint32_t element_bytes = 0;
  /// Hash of what has no field: counts per rank, a custom op's type, a subgroup's ranks; and bits of its own.
  std::uint64_t extra = 0;
  static constexpr std::uint64_t kDeterministic = 1;  ///< of a reduction: Options::deterministic
  static constexpr std::uint64_t kOnDevice = 2;       ///< of what has elements: they are a device's
  static constexpr std::uint64_t kOnEither = 4;       ///< or the ranks tell each other, as some may have none

  constexpr bool on_either_side() const noexcept { return element_bytes > 0 && (extra & kOnEither) != 0; }

  friend bool operator==(const Call&, const Call&) = default;
};
static_assert(sizeof(Call) == 32);

/// "all_reduce(float x 1024, sum, ring, chunk 65536)": for errors, notices and logs.
RONDO_EXPORT std::string to_string(const Call& call);

}  // namespace rondo
