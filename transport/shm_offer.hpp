#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "transport/descriptor.hpp"
#include "transport/link.hpp"
#include "transport/process_memory.hpp"
#include "transport/shared_memory.hpp"

namespace rondo::detail {

/// What two processes say to each other on a Unix socket, after the handshake, to agree on what carries their frames:
/// whoever connected offers memory, or says why not; the other maps it, or says why not. Both find out whether the
/// kernel lets them read each other, and fast enough. Either way the socket ends up in a link.
class ShmOffer {
 public:
  /// `refusal`: why this side wants no shared memory; empty: it does. `trial`: what finds out whether reading the other
  /// is a way for long messages.
  ShmOffer(bool offers, std::string refusal, decltype(&why_not_read) trial = &why_not_read)
      : offers_(offers), trial_(trial), refusal_(std::move(refusal)) {}

  enum class Progress { pending, agreed, broken };
  /// Moves what can move without blocking.
  Progress step(const Descriptor& socket);

  /// After `agreed`: the link; and why it is not a ShmLink, empty when it is.
  std::unique_ptr<Link> make_link(Descriptor socket);
  const std::string& reason() const noexcept { return refusal_; }

 private:
  struct Message;

  bool send(const Descriptor& socket, bool with_memory);
  Progress receive(const Descriptor& socket);
  void probe(const Descriptor& socket, const Message& other);

  const bool offers_;
  decltype(&why_not_read) trial_;
  bool sent_ = false;
  std::string refusal_;
  SharedMemory memory_;
  pid_t readable_pid_ = 0;
  std::string unreadable_;
};

}  // namespace rondo::detail
