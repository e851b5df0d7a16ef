#include "transport/shm_offer.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include "transport/passing.hpp"
#include "transport/process_memory.hpp"
#include "transport/shm_link.hpp"
#include "transport/socket_link.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

constexpr std::uint32_t kVersion = 3;

}  // namespace

/// Both directions: 0 version (u32), 4 accepted (u32), 8 bytes of memory (u64), 16 where this side maps it (u64), 24 a
/// word of the process: its address (u64) and value (u64), 40 why not (95 characters at the most, ending in 0).
struct ShmOffer::Message {
  std::uint32_t version = kVersion;
  std::uint32_t accepted = 0;
  std::uint64_t memory_bytes = ShmLink::memory_bytes();
  std::uint64_t memory_address = 0;
  ProcessWord word = ProcessWord::own();
  std::array<char, 96> refusal{};
};

ShmOffer::Progress ShmOffer::step(const Descriptor& socket) {
  if (offers_ && !sent_) {
    if (refusal_.empty()) {
      try {
        memory_ = SharedMemory::create(ShmLink::memory_bytes());
      } catch (const std::system_error& error) {
        refusal_ = error.what();
      }
    }
    if (!send(socket, refusal_.empty())) return Progress::broken;
  }
  return receive(socket);
}

// A message is small and the socket empty: it goes whole.
bool ShmOffer::send(const Descriptor& socket, bool with_memory) {
  sent_ = true;
  Message message;
  message.accepted = refusal_.empty() ? 1 : 0;
  message.memory_address = reinterpret_cast<std::uint64_t>(memory_.data());
  refusal_.copy(message.refusal.data(), message.refusal.size() - 1);
  return send_with_descriptor(socket, std::as_bytes(std::span(&message, 1)), with_memory ? memory_.descriptor() : -1);
}

ShmOffer::Progress ShmOffer::receive(const Descriptor& socket) {
  Message message;
  Descriptor memory;
  const ssize_t got = receive_with_descriptor(socket, std::as_writable_bytes(std::span(&message, 1)), memory);
  if (got < 0 && try_again(errno)) return Progress::pending;
  if (got != sizeof message || message.version != kVersion) return Progress::broken;
  if (refusal_.empty() && message.accepted == 0) {
    message.refusal.back() = '\0';
    refusal_ = message.refusal.data();
    if (refusal_.empty()) refusal_ = "the other side refused it";
  }
  if (!offers_) {
    if (refusal_.empty() && message.memory_bytes == ShmLink::memory_bytes()) {
      try {
        memory_ = SharedMemory::map(std::move(memory), ShmLink::memory_bytes());
      } catch (const std::system_error& error) {
        refusal_ = error.what();
      }
    } else if (refusal_.empty()) {
      refusal_ = "the other side has another size of ring";
    }
    if (!send(socket, false)) return Progress::broken;
  }
  if (refusal_.empty()) probe(socket, message);
  return Progress::agreed;
}

void ShmOffer::probe(const Descriptor& socket, const Message& other) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 || credentials.pid <= 0) {
    unreadable_ = "the other process is not seen from here";
  } else if (!other.word.found_in(credentials.pid)) {
    unreadable_ = "process_vm_readv: " + system_text(errno);
  } else {
    unreadable_ =
        trial_([&](std::span<std::byte> into) { return read_process(credentials.pid, other.memory_address, into); });
    if (unreadable_.empty()) readable_pid_ = credentials.pid;
  }
}

std::unique_ptr<Link> ShmOffer::make_link(Descriptor socket) {
  if (!refusal_.empty()) return std::make_unique<SocketLink>(std::move(socket));
  return std::make_unique<ShmLink>(std::move(socket), std::move(memory_), offers_, readable_pid_, ShmLink::kLines,
                                   unreadable_);
}

}  // namespace rondo::detail
