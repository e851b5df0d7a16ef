#include "transport/line_ring.hpp"

namespace rondo::detail {

RingWriter::RingWriter(std::byte* memory, std::size_t lines)
    : control_(reinterpret_cast<LineRing::Control*>(memory)),
      data_(memory + sizeof(LineRing::Control)),
      lines_(lines) {}

bool RingWriter::skip_to_start(std::uint64_t needed) noexcept {
  const std::uint64_t to_end = lines_ - (position_ & (lines_ - 1));
  if (!room(to_end + needed)) return false;
  publish(LineRing::Kind::skip, static_cast<std::size_t>(to_end * LineRing::kLine - LineRing::kMark), to_end);
  return true;
}

RingReader::RingReader(std::byte* memory, std::size_t lines)
    : control_(reinterpret_cast<LineRing::Control*>(memory)),
      data_(memory + sizeof(LineRing::Control)),
      lines_(lines) {}

RingReader::Record RingReader::front() noexcept {
  for (;;) {
    const std::uint64_t found = mark();
    const auto kind = static_cast<LineRing::Kind>(found >> LineRing::kKindShift);
    const std::size_t bytes = LineRing::bytes_of(found);
    const std::uint64_t to_end = lines_ - (position_ & (lines_ - 1));
    if (LineRing::lines_of(bytes) > to_end) return {LineRing::Kind{}, {}};
    if (kind != LineRing::Kind::skip) return {kind, {line(position_) + LineRing::kMark, bytes}};
    advance(to_end);
    if (!ready()) return {kind, {}};
  }
}

}  // namespace rondo::detail
