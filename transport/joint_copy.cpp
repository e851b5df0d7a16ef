#include "transport/joint_copy.hpp"

#include <algorithm>
#include <optional>

#include "transport/process_memory.hpp"

namespace rondo::detail {
namespace {

// What is claimed is counted in these.
constexpr std::uint64_t kUnit = 4 << 10;
// A claim, which costs a system call, is half of what nobody has claimed yet (all of it, for who has begun and sees
// nobody come), at the most so much. After the first it is no less than the least, nor is what it leaves.
constexpr std::uint64_t kLeastClaim = 32;
constexpr std::uint64_t kMostClaim = 256;

/// How many units have been claimed of a copy.
struct Claimed {
  static constexpr int kFrontShift = 24;
  static constexpr int kNumberShift = 48;
  static constexpr std::uint64_t kMost = (std::uint64_t{1} << kFrontShift) - 1;
  static constexpr std::uint64_t kNumbers = (std::uint64_t{1} << (64 - kNumberShift)) - 1;

  static Claimed of(std::uint64_t word) { return {word >> kNumberShift, word >> kFrontShift & kMost, word & kMost}; }
  std::uint64_t word() const { return number << kNumberShift | front << kFrontShift | back; }

  std::uint64_t number;
  std::uint64_t front;
  std::uint64_t back;
};

struct Units {
  std::uint64_t begin;
  std::uint64_t count;
};

/// Of a copy, nothing is written yet.
std::uint64_t nothing_written(const JointCopy::Request& request) { return request.number << Claimed::kNumberShift; }

static_assert(JointCopy::kGaveUp > Claimed::kMost && JointCopy::kGaveUp < std::uint64_t{1} << Claimed::kNumberShift);
static_assert(JointCopy::kMostBytes == Claimed::kMost * kUnit);

std::uint64_t units_of(const JointCopy::Request& request) { return (request.bytes + kUnit - 1) / kUnit; }

std::uint64_t next_claim(const Claimed& claimed, std::uint64_t units, bool alone) {
  const std::uint64_t left = units - claimed.front - claimed.back;
  const bool first = left == units;
  const std::uint64_t least = first ? 1 : kLeastClaim;
  const std::uint64_t part = std::clamp(alone ? left : (left + 1) / 2, least, kMostClaim);
  return first || left >= part + kLeastClaim ? part : left;
}

/// The next part from the front or from the back. Nothing: all is claimed, or a later copy has begun.
template <typename Next>
std::optional<Units> claim(JointCopy::Shared& shared, const JointCopy::Request& request, Next next) {
  const std::uint64_t units = units_of(request);
  std::uint64_t word = shared.claims.load(std::memory_order_acquire);
  for (;;) {
    Claimed claimed = Claimed::of(word);
    if (claimed.number != request.number || claimed.front + claimed.back >= units) return std::nullopt;
    const Units part = next(claimed, units);
    if (shared.claims.compare_exchange_weak(word, claimed.word(), std::memory_order_acq_rel)) return part;
  }
}

Units from_front(Claimed& claimed, std::uint64_t units) {
  const bool alone = claimed.front > 0 && claimed.back == 0;
  const Units part{claimed.front, next_claim(claimed, units, alone)};
  claimed.front += part.count;
  return part;
}

Units from_back(Claimed& claimed, std::uint64_t units) {
  const std::uint64_t more = next_claim(claimed, units, false);
  claimed.back += more;
  return {units - claimed.back, more};
}

/// So many units more are written, or `kGaveUp`. False: a later copy has begun.
bool tell(JointCopy::Shared& shared, const JointCopy::Request& request, std::uint64_t more) {
  std::uint64_t word = shared.written.load(std::memory_order_relaxed);
  do {
    if (Claimed::of(word).number != request.number) return false;
  } while (
      !shared.written.compare_exchange_weak(word, word + more, std::memory_order_release, std::memory_order_relaxed));
  return true;
}

/// What a part is in bytes from the beginning.
struct Stretch {
  Stretch(const Units& part, const JointCopy::Request& request)
      : offset(part.begin * kUnit), count(std::min(part.count * kUnit, request.bytes - offset)) {}
  const std::size_t offset;
  const std::size_t count;
};

}  // namespace

void JointCopy::help(Shared& shared, pid_t reader, const Request& request) {
  while (const auto part = claim(shared, request, from_back)) {
    const Stretch bytes(*part, request);
    const auto* const from = reinterpret_cast<const std::byte*>(request.from + bytes.offset);
    const bool done = write_process(reader, request.into + bytes.offset, {from, bytes.count});
    if (!tell(shared, request, done ? part->count : kGaveUp) || !done) return;
  }
}

JointRead::JointRead(JointCopy::Shared& shared, std::uint64_t number, std::uint64_t address, std::span<std::byte> into)
    : shared_(shared),
      request_{number & Claimed::kNumbers, address, reinterpret_cast<std::uint64_t>(into.data()), into.size()},
      into_(into) {
  shared_.written.store(nothing_written(request_), std::memory_order_relaxed);
  shared_.claims.store(Claimed{request_.number, 0, 0}.word(), std::memory_order_release);
}

bool JointRead::read(pid_t owner) {
  bool can = true;
  while (const auto part = claim(shared_, request_, from_front)) can = can && read(owner, part->begin, part->count);
  return can;
}

JointRead::State JointRead::state(pid_t owner) {
  const std::uint64_t claimed = Claimed::of(shared_.claims.load(std::memory_order_relaxed)).back;
  const std::uint64_t written = shared_.written.load(std::memory_order_acquire) - nothing_written(request_);
  if (written == claimed) return State::complete;
  if ((written & JointCopy::kGaveUp) == 0) return State::awaits_owner;
  const std::uint64_t missing = claimed - (written & ~JointCopy::kGaveUp);
  return read(owner, units_of(request_) - claimed, missing) ? State::complete : State::failed;
}

bool JointRead::read(pid_t owner, std::uint64_t unit, std::uint64_t units) const {
  const Stretch bytes({unit, units}, request_);
  return read_process(owner, request_.from + bytes.offset, into_.subspan(bytes.offset, bytes.count));
}

}  // namespace rondo::detail
