#include "transport/line_ring.hpp"

#include <algorithm>

namespace rondo::detail {
namespace {

// A mark: the kind in the highest byte, the bytes of the record in the others.
constexpr int kKindShift = 56;

std::uint64_t mark_of(LineRing::Kind kind, std::size_t bytes) {
  return static_cast<std::uint64_t>(kind) << kKindShift | bytes;
}

std::atomic_ref<std::uint64_t> word(std::byte* line) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(line));
}

}  // namespace

RingWriter::RingWriter(std::byte* memory, std::size_t lines)
    : control_(reinterpret_cast<LineRing::Control*>(memory)),
      data_(memory + sizeof(LineRing::Control)),
      lines_(lines) {}

void RingWriter::mark(std::uint64_t position, std::uint64_t value, std::memory_order order) const noexcept {
  word(line(position)).store(value, order);
}

// One line more than asked for: the mark behind a record is cleared.
bool RingWriter::room(std::uint64_t lines) noexcept {
  if (position_ + lines + 1 - consumed_ <= lines_) return true;
  consumed_ = control_->consumed.load(std::memory_order_acquire);
  return position_ + lines + 1 - consumed_ <= lines_;
}

std::byte* RingWriter::reserve(std::size_t bytes) noexcept {
  const std::uint64_t needed = LineRing::lines_of(bytes);
  const std::uint64_t to_end = lines_ - (position_ & (lines_ - 1));
  if (needed > to_end) {
    if (!room(to_end + needed)) return nullptr;
    mark(position_ + to_end, 0, std::memory_order_relaxed);
    mark(position_, mark_of(LineRing::Kind::skip, to_end * LineRing::kLine - LineRing::kMark),
         std::memory_order_release);
    position_ += to_end;
  }
  return room(needed) ? line(position_) + LineRing::kMark : nullptr;
}

void RingWriter::publish(LineRing::Kind kind, std::size_t bytes) noexcept {
  const std::uint64_t next = position_ + LineRing::lines_of(bytes);
  mark(next, 0, std::memory_order_relaxed);
  mark(position_, mark_of(kind, bytes), std::memory_order_release);
  position_ = next;
}

RingReader::RingReader(std::byte* memory, std::size_t lines)
    : control_(reinterpret_cast<LineRing::Control*>(memory)),
      data_(memory + sizeof(LineRing::Control)),
      lines_(lines) {}

std::uint64_t RingReader::mark() const noexcept { return word(line(position_)).load(std::memory_order_acquire); }

RingReader::Record RingReader::front() noexcept {
  for (;;) {
    const std::uint64_t found = mark();
    const auto kind = static_cast<LineRing::Kind>(found >> kKindShift);
    const auto bytes = static_cast<std::size_t>(found & ((std::uint64_t{1} << kKindShift) - 1));
    const std::uint64_t to_end = lines_ - (position_ & (lines_ - 1));
    if (LineRing::lines_of(bytes) > to_end) return {LineRing::Kind{}, {}};
    if (kind != LineRing::Kind::skip) return {kind, {line(position_) + LineRing::kMark, bytes}};
    advance(to_end);
    if (!ready()) return {kind, {}};
  }
}

bool RingReader::pop() noexcept {
  const auto bytes = static_cast<std::size_t>(mark() & ((std::uint64_t{1} << kKindShift) - 1));
  return advance(LineRing::lines_of(bytes));
}

bool RingReader::advance(std::uint64_t lines) noexcept {
  position_ += lines;
  if (position_ - told_ < lines_ / 8) return false;
  told_ = position_;
  control_->consumed.store(position_, std::memory_order_release);
  return true;
}

}  // namespace rondo::detail
