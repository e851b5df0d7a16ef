#include "transport/socket_link.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

// One call takes the header and the payload of up to this many queued frames.
constexpr std::size_t kFramesPerWrite = 16;
// A poll gives other links a turn after this many reads.
constexpr int kReadsPerPoll = 16;

bool stays_on_host(int socket) {
  sockaddr_storage mine{};
  sockaddr_storage theirs{};
  socklen_t length = sizeof mine;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &length) != 0) return false;
  length = sizeof theirs;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &length) != 0) return false;
  if (mine.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in&>(mine).sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in&>(theirs).sin_addr.s_addr;
  }
  if (mine.ss_family == AF_INET6) {
    return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<sockaddr_in6&>(mine).sin6_addr,
                              &reinterpret_cast<sockaddr_in6&>(theirs).sin6_addr);
  }
  return mine.ss_family == AF_UNIX;
}

std::size_t size_of(const Outgoing& frame) { return sizeof(FrameHeader) + frame.payload.size(); }

bool is_short(const FrameHeader& header) { return header.payload_bytes() <= SocketLink::kShortFrame; }

// The parts of a frame that are still to be written.
std::size_t gather(const Outgoing& frame, iovec* parts) {
  std::size_t count = 0;
  if (frame.written < sizeof(FrameHeader)) {
    auto* header = reinterpret_cast<const std::byte*>(&frame.header);
    parts[count++] = {const_cast<std::byte*>(header) + frame.written, sizeof(FrameHeader) - frame.written};
  }
  const std::size_t skip = frame.written > sizeof(FrameHeader) ? frame.written - sizeof(FrameHeader) : 0;
  if (skip < frame.payload.size()) {
    parts[count++] = {const_cast<std::byte*>(frame.payload.data()) + skip, frame.payload.size() - skip};
  }
  return count;
}

// The first so many bytes of them.
void cut(std::span<iovec> parts, std::size_t bytes) {
  for (iovec& part : parts) {
    part.iov_len = std::min(part.iov_len, bytes);
    bytes -= part.iov_len;
  }
}

// A list of parts costs the system more than copying so much.
constexpr std::size_t kWorthCopying = 1024;

ssize_t write_parts(int socket, std::span<iovec> parts) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  std::array<std::byte, kWorthCopying> together;
  std::size_t bytes = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > together.size() - bytes) {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      return ::sendmsg(socket, &message, kFlags);
    }
    std::memcpy(together.data() + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  return ::send(socket, together.data(), bytes, kFlags);
}

ssize_t read_parts(int socket, std::span<iovec> parts) {
  if (parts.size() == 1) return ::recv(socket, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

}  // namespace

SocketLink::SocketLink(Descriptor socket, std::size_t spill_bytes, int patience)
    : socket_(std::move(socket)), patience_(patience), spill_(std::max(spill_bytes, sizeof(FrameHeader))) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  const int on = 1;
  tcp_ = ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
  on_host_ = stays_on_host(socket_.get());
  if (!on_host_) return;
  gathers_ = tcp_;
  const int bytes = kLocalBufferBytes;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  if (!tcp_) return;
  acknowledge_at_once(false);
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_CONGESTION, kLocalCongestionControl.data(),
               socklen_t{kLocalCongestionControl.size()});
}

SocketLink::~SocketLink() = default;

void SocketLink::send(Outgoing& frame) {
  frame.written = 0;
  if (broken_) return;
  if (gathers_) {
    run_ = is_short(frame.header) ? std::min(run_ + 1, kLongRun) : 0;
    gather_frames(run_ == kLongRun);
  }
  const bool first = queue_.empty();
  queue_.push(frame);
  if (first) flush();
}

std::size_t SocketLink::flush() {
  std::size_t moved = 0;
  while (!queue_.empty() && !broken_) {
    const std::size_t written = write_queue();
    if (written == 0) break;
    ++moved;
    if (!queue_.empty() && ends_turn(*queue_.head())) break;
  }
  return moved;
}

// What is longer than a turn goes on in another one; shorter frames are held up by nothing but a full socket.
bool SocketLink::ends_turn(const Outgoing& next) const noexcept {
  return takes_turns() && next.written > 0 && size_of(next) > kTurn;
}

// Writes as much of the queue as one call takes; 0 when the socket is full or dead.
std::size_t SocketLink::write_queue() {
  std::array<iovec, 2 * kFramesPerWrite> parts;
  std::size_t count = 0;
  Outgoing* frame = queue_.head();
  for (std::size_t i = 0; frame && i < kFramesPerWrite; ++i, frame = frame->next) {
    count += gather(*frame, parts.data() + count);
  }
  if (takes_turns()) cut(std::span(parts).first(count), kTurn);
  const ssize_t written = write_parts(socket_.get(), std::span(parts).first(count));
  if (written < 0) {
    if (errno == EINTR) return write_queue();
    if (errno == EFAULT) {
      // Nothing whole can follow what has gone of the frame; the other side is to hear of it, too.
      fail(EFAULT);
      ::shutdown(socket_.get(), SHUT_RDWR);
      return 0;
    }
    // What the peer sent before it went is still to be read: only the reading side declares the link dead. Want of
    // memory is no end of it.
    broken_ = !try_again(errno) && errno != ENOBUFS && errno != ENOMEM;
    return 0;
  }
  owes_acknowledgement_ = false;
  auto left = static_cast<std::size_t>(written);
  while (left > 0) {
    Outgoing& head = *queue_.head();
    const std::size_t part = std::min(left, size_of(head) - head.written);
    head.written += part;
    left -= part;
    if (head.written < size_of(head)) break;
    detached_.sent(queue_.pop());
  }
  return static_cast<std::size_t>(written);
}

void SocketLink::release(Outgoing& frame) {
  if (frame.written == 0 || broken_) {
    queue_.replace(frame, nullptr);
    return;
  }
  detached_.take_over(queue_, frame);
}

std::size_t SocketLink::poll(Sink& sink) {
  std::size_t moved = queue_.empty() ? 0 : flush();
  if (held_) {
    ++moved;
    begin_long(sink);
  }
  for (int reads = 0; reads < kReadsPerPoll && !held_; ++reads) {
    if (!read(sink, moved)) break;
  }
  if (dead_ && !reported_) {
    reported_ = true;
    ++moved;
    sink.closed(cause_);
  }
  return moved;
}

// One call to receive and what follows from it. False when there is nothing more to read now.
bool SocketLink::read(Sink& sink, std::size_t& moved) {
  if (dead_) return false;
  std::array<iovec, 2> parts;
  std::size_t count = 0;
  std::size_t wanted = 0;
  if (in_payload_) {
    // A payload nobody wants is read into the spill and forgotten.
    const std::size_t room = place_ ? remaining_ : std::min(remaining_, spill_.size());
    parts[count++] = {place_ ? place_ : spill_.data(), room};
    wanted += room;
  }
  if (!in_payload_ || (place_ && spill_begin_ == spill_end_)) {
    if (spill_begin_ == spill_end_) spill_begin_ = spill_end_ = 0;
    parts[count++] = {spill_.data() + spill_end_, spill_.size() - spill_end_};
    wanted += spill_.size() - spill_end_;
  }
  const ssize_t got = read_parts(socket_.get(), std::span(parts).first(count));
  if (got < 0) {
    if (errno == EINTR) return true;
    if (!try_again(errno)) fail(errno);
    if (owes_acknowledgement_ && ++looked_in_vain_ >= patience_) settle();
    return false;
  }
  if (got == 0) {
    fail(0);
    return false;
  }
  ++moved;
  run_ = 0;
  gather_frames(false);
  auto bytes = static_cast<std::size_t>(got);
  const bool full = bytes == wanted;
  if (in_payload_) {
    const std::size_t part = std::min(bytes, parts[0].iov_len);
    if (place_) place_ += part;
    remaining_ -= part;
    bytes -= part;
    if (remaining_ == 0) {
      in_payload_ = false;
      sink.arrived(current_);
    }
  }
  spill_end_ += bytes;
  moved += parse(sink);
  const bool part_of_header = !in_payload_ && spill_end_ > 0;
  looked_in_vain_ = 0;
  owes_acknowledgement_ = gathers_ && (last_was_short_ || part_of_header);
  return full;
}

std::size_t SocketLink::parse(Sink& sink) {
  std::size_t frames = 0;
  while (!in_payload_ && !held_ && spill_end_ - spill_begin_ >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, spill_.data() + spill_begin_, sizeof header);
    spill_begin_ += sizeof header;
    ++frames;
    last_was_short_ = is_short(header);
    if (!header.is_ours()) {
      fail(EPROTO);
      return frames;
    }
    begin(sink, header);
  }
  if (spill_begin_ > 0) {
    std::memmove(spill_.data(), spill_.data() + spill_begin_, spill_end_ - spill_begin_);
    spill_end_ -= spill_begin_;
    spill_begin_ = 0;
  }
  return frames;
}

// A header has come: its payload is either whole in the spill, or it gets a place.
void SocketLink::begin(Sink& sink, const FrameHeader& header) {
  const std::size_t here = spill_end_ - spill_begin_;
  const std::byte* payload = spill_.data() + spill_begin_;
  if (header.payload_bytes() <= here) {
    const auto bytes = static_cast<std::size_t>(header.payload_bytes());
    spill_begin_ += bytes;
    sink.deliver(header, {payload, bytes});
    return;
  }
  current_ = header;
  held_ = !sink.expects(header);
  if (!held_) begin_long(sink);
}

// The payload of current_ gets its place.
void SocketLink::begin_long(Sink& sink) {
  const std::span<const std::byte> here(spill_.data() + spill_begin_, spill_end_ - spill_begin_);
  held_ = false;
  in_payload_ = true;
  remaining_ = static_cast<std::size_t>(current_.bytes) - here.size();
  spill_begin_ = spill_end_;
  place_ = nullptr;  // should the sink throw
  place_ = sink.accept(current_);
  if (place_) {
    std::memcpy(place_, here.data(), here.size());
    place_ += here.size();
  }
}

void SocketLink::gather_frames(bool gathering) {
  if (gathering_ == gathering) return;
  gathering_ = gathering;
  const int at_once = gathering ? 0 : 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
}

// Otherwise the system does with the next frame that leaves here, or after some 40 ms, or when much has come.
void SocketLink::acknowledge_at_once(bool at_once) noexcept {
  const int on = at_once ? 1 : 0;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

// The other's system may be keeping back what this side waits for, until it hears that the rest has come.
void SocketLink::settle() noexcept {
  if (!std::exchange(owes_acknowledgement_, false)) return;
  acknowledge_at_once(true);
  acknowledge_at_once(false);
}

bool SocketLink::rest(bool resting) noexcept {
  if (resting) settle();
  return false;
}

void SocketLink::fail(int error) {
  dead_ = broken_ = true;
  if (error == 0) {
    cause_ = "the connection was closed";
  } else if (error == EPROTO) {
    cause_ = "bytes came that are no frame of this version";
  } else if (error == EFAULT) {
    cause_ = "the connection was given up (a buffer to be sent to it was gone)";
  } else {
    cause_ = "the connection failed: " + system_text(error);
  }
}

void SocketLink::shut_down() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

bool SocketLink::drained() const {
  int unsent = 0;
  return dead_ || !tcp_ || ::ioctl(socket_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

}  // namespace rondo::detail
