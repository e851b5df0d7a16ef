#include "transport/shm_link.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "transport/copy_short.hpp"
#include "transport/passing.hpp"
#include "transport/process_memory.hpp"
#include "transport/resting.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

// What every header has; the rest of it, the fingerprint, is left out where it says nothing.
constexpr std::size_t kShortHeader = offsetof(FrameHeader, fingerprint);
enum ShortHeaderWord : std::size_t { kFirst, kCommunicator, kNumberAndId, kBytes };

// Word by word, as an atomic: of two words at once a compiler makes a vector in memory, which the core would read only
// after all that it has stored before has gone, to lines that are on their way from another core.
void put_word(std::byte* header, ShortHeaderWord which, std::uint64_t word) {
  LineRing::mark_in(header + which * sizeof word).store(word, std::memory_order_relaxed);
}

std::uint64_t word_in(const std::byte* header, ShortHeaderWord which) {
  std::uint64_t word = 0;
  std::memcpy(&word, header + which * sizeof word, sizeof word);
  return word;
}

// What is said on the socket: a bell is a byte; a note comes with a descriptor, and its number follows.
constexpr std::byte kBell{0};
constexpr std::byte kNoteByte{1};
// Read of it at a time.
constexpr std::size_t kMostSaid = 64;
// What the other side has begun to write is soon there, if it keeps its core.
constexpr int kLooksForHelp = 4000;
// And if it does not: a process that is stopped has ended its system call before.
constexpr auto kMostForOnePiece = std::chrono::seconds(1);
// A poll gives other links a turn after this many records.
constexpr int kRecordsPerPoll = 16;

LineRing::Kind ring_kind(const FrameHeader& header) {
  const bool says =
      (header.fingerprint[0] | header.fingerprint[1] | header.fingerprint[2] | header.fingerprint[3]) != 0;
  return says ? LineRing::Kind::long_frame : LineRing::Kind::frame;
}

std::size_t header_bytes_of(LineRing::Kind kind) {
  return kind == LineRing::Kind::long_frame ? sizeof(FrameHeader) : kShortHeader;
}

// In two copies, each of a length that the compiler knows.
void copy_header(LineRing::Kind kind, std::byte* to, const std::byte* from) {
  std::memcpy(to, from, kShortHeader);
  if (kind != LineRing::Kind::long_frame) return;
  std::memcpy(to + kShortHeader, from + kShortHeader, sizeof(FrameHeader) - kShortHeader);
}

// The header of the frame that begins in a record, and what of its payload follows there. Nothing: none begins.
std::optional<std::span<const std::byte>> begin_of(const RingReader::Record& record, FrameHeader& header) {
  const bool begins = record.kind == LineRing::Kind::frame || record.kind == LineRing::Kind::long_frame;
  const std::size_t header_bytes = header_bytes_of(record.kind);
  if (!begins || record.bytes.size() < header_bytes) return std::nullopt;
  copy_header(record.kind, reinterpret_cast<std::byte*>(&header), record.bytes.data());
  const auto payload = record.bytes.subspan(header_bytes);
  if (!header.is_ours() || payload.size() > header.payload_bytes()) return std::nullopt;
  return payload;
}

JointCopy::Shared& joint_copy(const SharedMemory& memory, std::size_t lines, std::size_t of) {
  return reinterpret_cast<JointCopy::Shared*>(memory.data() + 2 * LineRing::bytes(lines))[of];
}

}  // namespace

ShmLink::ShmLink(Descriptor socket, SharedMemory memory, bool made_here, pid_t readable_pid, std::size_t lines,
                 std::string unreadable)
    : socket_(std::move(socket)),
      memory_(std::move(memory)),
      readable_pid_(readable_pid),
      unreadable_(std::move(unreadable)),
      reads_(joint_copy(memory_, lines, made_here ? 0 : 1)),
      writes_(joint_copy(memory_, lines, made_here ? 1 : 0)) {
  memory_.close_descriptor();
  notes_.reserve(2 * kMostSaid);
  std::byte* const first = memory_.data();
  std::byte* const second = first + LineRing::bytes(lines);
  out_ = RingWriter(made_here ? first : second, lines);
  in_ = RingReader(made_here ? second : first, lines);
  rest(false);
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

// A record of a header and a part of a payload. False: there is no room.
template <typename PutHeader>
bool ShmLink::put(LineRing::Kind kind, std::size_t header_bytes, std::span<const std::byte> part,
                  PutHeader put_header) {
  std::byte* const record = out_.reserve(header_bytes + part.size());
  if (!record) return false;
  // The reader looks at the first line: that is written last, and at once.
  constexpr std::size_t kLine = LineRing::first_bytes();
  const std::size_t first = std::min(part.size(), kLine - std::min(kLine, header_bytes));
  std::byte* const payload = record + header_bytes;
  if (part.size() > first) stores_.copy(part.subspan(first), payload + first);
  put_header(record);
  copy_short(part.first(first), payload);
  out_.publish(kind, header_bytes + part.size());
  return true;
}

// One record of the frame; `written` counts as if the header were always sent whole. False: there is no room.
bool ShmLink::write(Outgoing& frame) {
  const bool begins = frame.written == 0;
  const LineRing::Kind kind = begins ? ring_kind(frame.header) : LineRing::Kind::piece;
  const std::size_t header_bytes = begins ? header_bytes_of(kind) : 0;
  const std::size_t sent = begins ? 0 : frame.written - sizeof(FrameHeader);
  const std::size_t part = std::min(frame.payload.size() - sent, out_.most() - header_bytes);
  const bool written = put(kind, header_bytes, frame.payload.subspan(sent, part), [&](std::byte* record) {
    if (begins) copy_header(kind, record, reinterpret_cast<const std::byte*>(&frame.header));
  });
  if (written) frame.written = sizeof(FrameHeader) + sent + part;
  return written;
}

bool ShmLink::send_now(EagerHeader header, std::span<const std::byte> payload) {
  if (!queue_.empty() || ended_ || kShortHeader + payload.size() > out_.most()) return false;
  const bool written = put(LineRing::Kind::frame, kShortHeader, payload, [&](std::byte* record) {
    put_word(record, kFirst, header.first);
    put_word(record, kCommunicator, header.communicator);
    put_word(record, kNumberAndId, 0);
    put_word(record, kBytes, payload.size());
  });
  if (written) wake_other();
  return written;
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
  std::array<std::byte, 1 + sizeof number> note{kNoteByte};
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

std::optional<Link::Arrived> ShmLink::arrived(int looks) {
  if (in_payload_ || ended_) return std::nullopt;
  const bool waits = looks > 1;
  for (; looks > 0; --looks) {
    if (!in_.ready()) continue;
    // It may have an answer like it: until that is on its way the line is here. Who shares a core has others first.
    if (waits && in_.next_is_short()) out_.expect_short();
    const RingReader::Record record = in_.front();
    if (record.kind == LineRing::Kind::skip) continue;
    if (record.kind != LineRing::Kind::frame || record.bytes.size() < kShortHeader) return std::nullopt;
    const std::byte* const header = record.bytes.data();
    const auto payload = record.bytes.subspan(kShortHeader);
    if (payload.size() != word_in(header, kBytes)) return std::nullopt;
    return Arrived{{word_in(header, kFirst), word_in(header, kCommunicator)}, payload};
  }
  return std::nullopt;
}

void ShmLink::take_arrived() {
  if (in_.pop()) wake_other();
}

// One record. False: there is none after all, or no more are to be read.
bool ShmLink::take(Sink& sink) {
  if (reported_) return false;
  const RingReader::Record record = in_.front();
  if (record.kind == LineRing::Kind::skip) return false;
  const auto use = [&] {
    switch (record.kind) {
      case LineRing::Kind::piece: return go_on(sink, record.bytes);
      case LineRing::Kind::help: return help(record.bytes);
      default: return begin(sink, record);
    }
  };
  const bool good = use();
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
  FrameHeader header;
  const auto payload = in_payload_ ? std::nullopt : begin_of(record, header);
  if (!payload) return false;
  if (payload->size() == header.payload_bytes()) {
    sink.deliver(header, *payload);
    return true;
  }
  current_ = header;
  remaining_ = static_cast<std::size_t>(header.bytes);
  place_ = sink.accept(header);
  in_payload_ = true;
  return go_on(sink, *payload);
}

bool ShmLink::go_on(Sink& sink, std::span<const std::byte> piece) {
  if (!in_payload_ || piece.size() > remaining_) return false;
  if (place_) {
    copy_short(piece, place_);
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
  Resting::rest(in_.control().resting, resting);
  return true;
}

std::size_t ShmLink::check(Sink& sink) {
  std::size_t found = 0;
  while (!ended_ && take_notes(sink)) ++found;
  return found;
}

// One look at the socket, which ends behind what a descriptor came with: that belongs to the last note that begins
// there. False: nothing more is there.
bool ShmLink::take_notes(Sink& sink) {
  std::array<std::byte, kMostSaid> said;
  Descriptor came;
  const ssize_t got = receive_with_descriptor(socket_, said, came);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && try_again(errno)) return false;
  if (got <= 0) {
    fail(got == 0 ? "the process at the other side ended" : "the connection failed: " + system_text(errno));
    return false;
  }
  if (notes_.empty()) std::swap(passed_, came);
  notes_.insert(notes_.end(), said.begin(), said.begin() + got);
  while (!notes_.empty()) {
    std::uint64_t number = 0;
    const std::size_t length = notes_.front() == kNoteByte ? 1 + sizeof number : 1;
    if (notes_.size() < length) return true;
    if (length > 1) {
      std::memcpy(&number, notes_.data() + 1, sizeof number);
      sink.passed(std::exchange(passed_, {}), number);
      std::swap(passed_, came);
    }
    notes_.erase(notes_.begin(), notes_.begin() + static_cast<std::ptrdiff_t>(length));
  }
  return true;
}

Link::Pulled ShmLink::pull(std::uint64_t address, std::span<std::byte> into, bool jointly) {
  if (readable_pid_ == 0) return Pulled::no;
  if (jointly && !joint_ && into.size() <= JointCopy::kMostBytes && queue_.empty()) {
    joint_.emplace(reads_, ++last_joint_, address, into);
    ask_for_help(joint_->request());
    const bool read = joint_->read(readable_pid_);
    for (int look = 0; read && look < kLooksForHelp; ++look) {
      if (const Pulled found = pulled(); found != Pulled::not_yet) return found;
    }
    if (read) return Pulled::not_yet;
    const int error = errno;
    give_up_pull();
    return read_no_more(error);
  }
  return read_process(readable_pid_, address, into) ? Pulled::yes : read_no_more(errno);
}

Link::Pulled ShmLink::read_no_more(int error) noexcept {
  readable_pid_ = 0;
  read_error_ = error;
  return Pulled::no;
}

Link::Pulled ShmLink::pulled() {
  const JointRead::State state = joint_->state(readable_pid_);
  if (state == JointRead::State::awaits_owner) return Pulled::not_yet;
  joint_.reset();
  return state == JointRead::State::complete ? Pulled::yes : read_no_more(errno);
}

void ShmLink::give_up_pull() noexcept {
  const auto end = std::chrono::steady_clock::now() + kMostForOnePiece;
  // It may have died, and this side heard of it from elsewhere.
  pollfd other{socket_.get(), 0, 0};
  while (!ended_ && joint_ && ::poll(&other, 1, 0) <= 0 && std::chrono::steady_clock::now() < end) {
    if (pulled() == Pulled::not_yet) ::sched_yield();
  }
}

// Who sleeps is not woken for it, and where there is no room it is done without.
void ShmLink::ask_for_help(const JointCopy::Request& request) {
  std::byte* const record = out_.reserve(sizeof request);
  if (!record) return;
  std::memcpy(record, &request, sizeof request);
  out_.publish(LineRing::Kind::help, sizeof request);
}

bool ShmLink::help(std::span<const std::byte> record) {
  JointCopy::Request request;
  if (record.size() != sizeof request) return false;
  std::memcpy(&request, record.data(), sizeof request);
  if (readable_pid_ != 0) JointCopy::help(writes_, readable_pid_, request);
  wake_other();
  return true;
}

bool ShmLink::good(std::uint64_t ticket) const noexcept {
  // What was read while its owner took it back is nothing to go by.
  order_memory(std::memory_order_acquire);
  return in_.control().voided.load(std::memory_order_acquire) == ticket;
}

std::string ShmLink::long_messages() const {
  if (readable_pid_ != 0) return "by process_vm_readv";
  return "through the ring: " + (unreadable_.empty() ? "process_vm_readv: " + system_text(read_error_) : unreadable_);
}

void ShmLink::shut_down() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

void ShmLink::fail(std::string cause) {
  if (ended_) return;
  ended_ = true;
  cause_ = std::move(cause);
}

}  // namespace rondo::detail
