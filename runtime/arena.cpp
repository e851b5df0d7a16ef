#include "runtime/arena.hpp"

#include <algorithm>

#include "transport/order_memory.hpp"

namespace rondo::detail {

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

void Arena::give_up() noexcept {
  words_[rank_].given_up.store(1, std::memory_order_release);
  order_memory(std::memory_order_release);
}

bool Arena::has_given_up(int member) const noexcept {
  order_memory(std::memory_order_acquire);
  return words_[member].given_up.load(std::memory_order_acquire) != 0;
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
