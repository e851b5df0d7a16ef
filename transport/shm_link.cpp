#include "transport/shm_link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "transport/passing.hpp"
#include "transport/resting.hpp"

namespace rondo::detail {
namespace {

// What every header has; the rest of it, the fingerprint, is left out where it says nothing.
constexpr std::size_t kShortHeader = offsetof(FrameHeader, fingerprint);
// What is said on the socket: a bell is a byte; a note comes with a descriptor, and its number follows.
constexpr std::byte kBell{0};
constexpr std::byte kNote{1};
// A poll gives other links a turn after this many records.
constexpr int kRecordsPerPoll = 16;

bool has_fingerprint(const FrameHeader& header) {
  return (header.fingerprint[0] | header.fingerprint[1] | header.fingerprint[2] | header.fingerprint[3]) != 0;
}

}  // namespace

ShmLink::ShmLink(Descriptor socket, SharedMemory memory, bool made_here, pid_t readable_pid, std::size_t lines)
    : socket_(std::move(socket)), memory_(std::move(memory)), readable_pid_(readable_pid) {
  memory_.close_descriptor();
  std::byte* const first = memory_.data();
  std::byte* const second = first + LineRing::bytes(lines);
  out_ = RingWriter(made_here ? first : second, lines);
  in_ = RingReader(made_here ? second : first, lines);
}

// Sending.

void ShmLink::send(Outgoing& frame) {
  frame.written = 0;
  if (ended_) return;
  const bool first = queue_.empty();
  queue_.push(frame);
  if (first) flush();
}

std::size_t ShmLink::flush() {
  std::size_t moved = 0;
  while (!queue_.empty() && write(*queue_.head())) {
    ++moved;
    if (queue_.head()->written == sizeof(FrameHeader) + queue_.head()->payload.size()) detached_.sent(queue_.pop());
  }
  if (moved > 0) wake_other();
  return moved;
}

// One record of the frame; `written` counts as if the header were always sent whole. False: there is no room.
bool ShmLink::write(Outgoing& frame) {
  std::size_t header_bytes = 0;
  LineRing::Kind kind = LineRing::Kind::piece;
  if (frame.written == 0) {
    const bool whole = has_fingerprint(frame.header);
    kind = whole ? LineRing::Kind::long_frame : LineRing::Kind::frame;
    header_bytes = whole ? sizeof(FrameHeader) : kShortHeader;
  }
  const std::size_t sent = frame.written == 0 ? 0 : frame.written - sizeof(FrameHeader);
  const std::size_t part = std::min(frame.payload.size() - sent, out_.most() - header_bytes);
  std::byte* const record = out_.reserve(header_bytes + part);
  if (!record) return false;
  if (header_bytes > 0) std::memcpy(record, &frame.header, header_bytes);
  if (part > 0) std::memcpy(record + header_bytes, frame.payload.data() + sent, part);
  out_.publish(kind, header_bytes + part);
  frame.written = sizeof(FrameHeader) + sent + part;
  return true;
}

void ShmLink::release(Outgoing& frame) {
  if (frame.written == 0 || ended_) {
    queue_.replace(frame, nullptr);
  } else {
    detached_.take_over(queue_, frame);
  }
}

void ShmLink::wake_other() noexcept {
  if (Resting::must_wake(out_.control().resting)) ring();
}

void ShmLink::ring() noexcept {
  // A full socket has woken the other side already; a dead one is seen by `check`.
  (void)::send(socket_.get(), &kBell, sizeof kBell, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ShmLink::pass(int descriptor, std::uint64_t number) {
  std::array<std::byte, 1 + sizeof number> note{kNote};
  std::memcpy(note.data() + 1, &number, sizeof number);
  return send_with_descriptor(socket_, note, descriptor);
}

// Receiving.

std::size_t ShmLink::poll(Sink& sink) {
  std::size_t moved = queue_.empty() || ended_ ? 0 : flush();
  for (int records = 0; records < kRecordsPerPoll && in_.ready() && take(sink); ++records) ++moved;
  if (ended_ && !reported_ && !in_.ready()) {
    reported_ = true;
    ++moved;
    sink.closed(cause_);
  }
  return moved;
}

// One record. False: there is none after all, or no more are to be read.
bool ShmLink::take(Sink& sink) {
  if (reported_) return false;
  const RingReader::Record record = in_.front();
  if (record.kind == LineRing::Kind::skip) return false;
  const bool good = record.kind == LineRing::Kind::piece ? go_on(sink, record.bytes) : begin(sink, record);
  if (!good) {
    fail("records came that no rondo writes");
    reported_ = true;
    sink.closed(cause_);
    return false;
  }
  if (in_.pop()) wake_other();
  return true;
}

bool ShmLink::begin(Sink& sink, const RingReader::Record& record) {
  const bool whole = record.kind == LineRing::Kind::long_frame;
  const std::size_t header_bytes = whole ? sizeof(FrameHeader) : kShortHeader;
  if (in_payload_ || (!whole && record.kind != LineRing::Kind::frame) || record.bytes.size() < header_bytes) {
    return false;
  }
  FrameHeader header;
  std::memcpy(&header, record.bytes.data(), header_bytes);
  const auto payload = record.bytes.subspan(header_bytes);
  if (header.version != FrameHeader::kVersion || payload.size() > header.payload_bytes()) return false;
  if (payload.size() == header.payload_bytes()) {
    sink.deliver(header, payload);
    return true;
  }
  current_ = header;
  in_payload_ = true;
  remaining_ = static_cast<std::size_t>(header.bytes);
  place_ = sink.accept(header);
  return go_on(sink, payload);
}

bool ShmLink::go_on(Sink& sink, std::span<const std::byte> piece) {
  if (!in_payload_ || piece.size() > remaining_) return false;
  if (place_ && !piece.empty()) {
    std::memcpy(place_, piece.data(), piece.size());
    place_ += piece.size();
  }
  remaining_ -= piece.size();
  if (remaining_ == 0) {
    in_payload_ = false;
    sink.arrived(current_);
  }
  return true;
}

bool ShmLink::rest(bool resting) noexcept {
  in_.control().resting.store(resting ? 1 : 0, std::memory_order_release);
  return true;
}

std::size_t ShmLink::check(Sink& sink) {
  std::size_t found = 0;
  while (!ended_ && take_notes(sink)) ++found;
  return found;
}

// One look at the socket. False: nothing more is there.
bool ShmLink::take_notes(Sink& sink) {
  std::array<std::byte, 64> said;
  const ssize_t got = receive_with_descriptor(socket_, said, passed_);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got <= 0) {
    fail(got == 0 ? "the process at the other side ended"
                  : "the connection failed: " + std::generic_category().message(errno));
    return false;
  }
  notes_.insert(notes_.end(), said.begin(), said.begin() + got);
  while (!notes_.empty()) {
    std::uint64_t number = 0;
    const std::size_t length = notes_.front() == kNote ? 1 + sizeof number : 1;
    if (notes_.size() < length) return true;
    if (length > 1) {
      std::memcpy(&number, notes_.data() + 1, sizeof number);
      sink.passed(std::move(passed_), number);
    }
    notes_.erase(notes_.begin(), notes_.begin() + static_cast<std::ptrdiff_t>(length));
  }
  return true;
}

bool ShmLink::pull(std::uint64_t address, std::span<std::byte> into, std::uint64_t ticket) {
  while (!into.empty() && readable_pid_ != 0) {
    const iovec here{into.data(), into.size()};
    const iovec there{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = ::process_vm_readv(readable_pid_, &here, 1, &there, 1, 0);
    if (got <= 0) {
      readable_pid_ = 0;
      break;
    }
    address += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  // What was read while its owner took it back is nothing to go by.
  return into.empty() && in_.control().voided.load(std::memory_order_acquire) == ticket;
}

void ShmLink::shut_down() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

void ShmLink::fail(std::string cause) {
  if (ended_) return;
  ended_ = true;
  cause_ = std::move(cause);
}

}  // namespace rondo::detail
