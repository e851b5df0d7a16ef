#include "runtime/arena.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "transport/take_for_writing.hpp"

namespace rondo::detail {
namespace {

std::uint64_t mix(std::uint64_t history, const Call& call) {
  for (const std::uint64_t word : std::bit_cast<std::array<std::uint64_t, 4>>(call)) {
    history = (std::rotl(history, 23) ^ word) * 0x9e3779b97f4a7c15u;
  }
  return history;
}

// So far ahead that nobody looks at that slot yet.
constexpr std::uint64_t kTakenAhead = 4;

}  // namespace

std::size_t Arena::words_bytes(int members) {
  const std::size_t bytes = static_cast<std::size_t>(members) * sizeof(Words);
  return (bytes + alignof(Member) - 1) / alignof(Member) * alignof(Member);
}

std::size_t Arena::memory_bytes(int members, std::size_t staging_bytes) {
  return words_bytes(members) + static_cast<std::size_t>(members) * (sizeof(Member) + staging_bytes);
}

Arena::Arena(SharedMemory memory, int rank, int members, std::size_t staging_bytes)
    : memory_(std::move(memory)),
      rank_(rank),
      members_(members),
      staging_bytes_(staging_bytes),
      words_(reinterpret_cast<Words*>(memory_.data())),
      first_(reinterpret_cast<Member*>(memory_.data() + words_bytes(members))),
      staging_(reinterpret_cast<std::byte*>(first_ + members)),
      ring_(staging_bytes),
      known_(static_cast<std::size_t>(members)) {
  rest(false);
}

Arena::Step Arena::next(std::size_t bytes, std::size_t lap) noexcept {
  Step step;
  step.number = ++step_;
  step.in_slots = bytes <= kInlineBytes;
  step.after = step_ > kDepth ? step_ - kDepth : 0;
  if (!step.in_slots) {
    const StagingRing::Piece piece = ring_.take(bytes, step_, lap);
    step.offset = piece.offset;
    step.after = std::max(step.after, piece.after);
  }
  return step;
}

void Arena::enter(const Step& step, const Call& call) noexcept {
  history_ = mix(history_, call);
  Slot& mine = slot(rank_, step.number);
  mine.call = call;
  mine.history = history_;
  mine.step.store(step.number, std::memory_order_release);
  take_for_writing(&slot(rank_, step.number + kTakenAhead));
}

bool Arena::claim(const Step& step, int of) noexcept {
  std::uint64_t before = share(of).load(std::memory_order_relaxed);
  // Nobody writes anything of another step now: whoever changes the word first claims the share for this one.
  return before < word_of(step, 0) &&
         share(of).compare_exchange_strong(before, word_of(step, rank_), std::memory_order_relaxed);
}

int Arena::worker(const Step& step, int of) const noexcept {
  const std::uint64_t now = share(of).load(std::memory_order_relaxed);
  return now < word_of(step, 0) ? of : static_cast<int>(now & (kLacks - 1));
}

}  // namespace rondo::detail
