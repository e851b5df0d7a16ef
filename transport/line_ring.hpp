#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/take_for_writing.hpp"

namespace rondo::detail {

/// One direction between two processes: records in shared memory, first in, first out, one writer and one reader.
///
///     control   | line | line | line | line | ...
///     consumed    ^ a record starts on a line: its mark (8 bytes), then its bytes, over as many lines as it takes
///     resting
///     voided
///
/// A mark that is not zero says that the record is there and how long it is; the writer stores it last. So a short
/// message moves one cache line from the writer to the reader, and no index that both touch. Before a record is
/// published the mark of the line behind it is clear: whatever lay there before, the reader sees no record yet. The
/// writer clears some lines ahead, after it has published: so that nothing else must come into its cache between the
/// bytes of a record and the mark, which the reader is looking at.
/// A record lies in one piece; where the end of the ring is too near, a `skip` record fills the rest.
struct LineRing {
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kMark = sizeof(std::uint64_t);

  /// `help` is the link's own: no part of a frame.
  enum class Kind : std::uint8_t { skip = 1, frame, long_frame, piece, help };

  /// Written seldom, so that they stay in both sides' caches; the first two by the reader.
  struct Control {
    alignas(2 * kLine) std::atomic<std::uint64_t> consumed;  ///< lines that the writer may use again
    alignas(2 * kLine) std::atomic<std::uint32_t> resting;   ///< whether the reader's process sleeps: see Resting
    alignas(2 * kLine) std::atomic<std::uint64_t> voided;    ///< the writer's: how often offered memory was taken back
  };

  /// Memory for a ring of `lines`, a power of two.
  static constexpr std::size_t bytes(std::size_t lines) { return sizeof(Control) + lines * kLine; }

  /// Lines that a record of so many bytes takes.
  static constexpr std::uint64_t lines_of(std::size_t bytes) { return (kMark + bytes + kLine - 1) / kLine; }

  /// Bytes of a record that lie on its first line.
  static constexpr std::size_t first_bytes() { return kLine - kMark; }

  /// A mark: the kind in the highest byte, the bytes of the record in the others.
  static constexpr int kKindShift = 56;
  static constexpr std::uint64_t mark_of(Kind kind, std::size_t bytes) {
    return static_cast<std::uint64_t>(kind) << kKindShift | bytes;
  }
  static constexpr std::size_t bytes_of(std::uint64_t mark) { return mark & ((std::uint64_t{1} << kKindShift) - 1); }
  using Mark = std::atomic_ref<std::uint64_t>;
  static Mark mark_in(std::byte* line) noexcept { return Mark(*reinterpret_cast<std::uint64_t*>(line)); }
};
static_assert(sizeof(LineRing::Control) == 6 * LineRing::kLine);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

class RingWriter {
 public:
  RingWriter() = default;
  /// `memory` is zeroed, aligned to a page, and holds `LineRing::bytes(lines)`.
  RingWriter(std::byte* memory, std::size_t lines);

  /// The longest record.
  std::size_t most() const noexcept { return lines_ / 4 * LineRing::kLine - LineRing::kMark; }
  /// Where a record of so many bytes may be written; nullptr while there is no room.
  std::byte* reserve(std::size_t bytes) noexcept {
    const std::uint64_t needed = LineRing::lines_of(bytes);
    if (needed > lines_ - (position_ & (lines_ - 1)) && !skip_to_start(needed)) return nullptr;
    return room(needed) ? line(position_) + LineRing::kMark : nullptr;
  }
  /// What was written there is a record of so many bytes.
  void publish(LineRing::Kind kind, std::size_t bytes) noexcept { publish(kind, bytes, LineRing::lines_of(bytes)); }

  /// A record of one line is about to be written. The reader, who looks at that line, must lose it first.
  void expect_short() const noexcept { take_for_writing(line(position_)); }

  LineRing::Control& control() const noexcept { return *control_; }

 private:
  std::byte* line(std::uint64_t position) const noexcept { return data_ + (position & (lines_ - 1)) * LineRing::kLine; }
  LineRing::Mark mark(std::uint64_t position) const noexcept { return LineRing::mark_in(line(position)); }
  // One line more than asked for: the mark behind a record is cleared.
  bool room(std::uint64_t lines) noexcept {
    if (position_ + lines + 1 - consumed_ <= lines_) return true;
    consumed_ = control_->consumed.load(std::memory_order_acquire);
    return position_ + lines + 1 - consumed_ <= lines_;
  }
  bool skip_to_start(std::uint64_t needed) noexcept;
  void publish(LineRing::Kind kind, std::size_t bytes, std::uint64_t lines) noexcept {
    const std::uint64_t next = position_ + lines;
    if (clear_to_ <= next) clear(next, next + 1);
    mark(position_).store(LineRing::mark_of(kind, bytes), std::memory_order_release);
    position_ = next;
    if (next + kAhead <= consumed_ + lines_) clear(clear_to_, next + kAhead);
  }
  void clear(std::uint64_t from, std::uint64_t to) noexcept {
    for (; from < to; ++from) mark(from).store(0, std::memory_order_relaxed);
    clear_to_ = to;
  }

  static constexpr std::uint64_t kAhead = 32;

  LineRing::Control* control_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t lines_ = 0;
  std::uint64_t position_ = 0;  // lines written since the start
  std::uint64_t clear_to_ = 0;  // the marks from `position_` up to this line are zero
  std::uint64_t consumed_ = 0;  // the reader's word, as last seen
};

class RingReader {
 public:
  struct Record {
    LineRing::Kind kind;
    std::span<const std::byte> bytes;
  };

  RingReader() = default;
  RingReader(std::byte* memory, std::size_t lines);

  /// Whether a record is there.
  bool ready() const noexcept { return mark() != 0; }
  /// And whether it is on one line.
  bool next_is_short() const noexcept { return LineRing::bytes_of(mark()) <= LineRing::first_bytes(); }
  /// The record that is there; of kind `skip` when none is after all, of no kind when the mark is nonsense.
  Record front() noexcept;
  /// Done with it: its lines may be used again. True: the writer has been told so, and may be waiting for it.
  bool pop() noexcept { return advance(LineRing::lines_of(LineRing::bytes_of(mark()))); }

  LineRing::Control& control() const noexcept { return *control_; }

 private:
  std::byte* line(std::uint64_t position) const noexcept { return data_ + (position & (lines_ - 1)) * LineRing::kLine; }
  std::uint64_t mark() const noexcept { return LineRing::mark_in(line(position_)).load(std::memory_order_acquire); }
  bool advance(std::uint64_t lines) noexcept {
    position_ += lines;
    if (position_ - told_ < lines_ / 8) return false;
    told_ = position_;
    control_->consumed.store(position_, std::memory_order_release);
    return true;
  }

  LineRing::Control* control_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t lines_ = 0;
  std::uint64_t position_ = 0;  // lines read since the start
  std::uint64_t told_ = 0;      // of them, what the writer knows
};

}  // namespace rondo::detail
