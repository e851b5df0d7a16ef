#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/config.hpp>

#include "runtime/clock.hpp"
#include "runtime/endpoint.hpp"
#include "runtime/identity.hpp"
#include "runtime/log.hpp"
#include "runtime/notice.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

class HubThread;
struct HubCall;

/// A rank's connection to the hub of its job. Two steps, because a rank must know its own address before it can listen
/// for the others. One thread at a time; in a world that needs no hub every call is a no-op.
class Control {
 public:
  /// Connects and authenticates; where rank 0 is the meeting point, it starts the hub. Retries until
  /// `config.init_timeout` after now, rank 0 may be late. Throws Error, each cause with its own code.
  Control(const Identity& identity, const Config& config, Log log = Log());
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  /// Closes the connection. Without an earlier `goodbye` the others see a dead rank. Where the hub is ours it ends
  /// too, after at most 200 ms (after a second where the meeting failed: who is still on his way hears why): the others
  /// keep their links, but nobody tells them of deaths any more.
  ~Control();

  /// Numeric address of our end towards the hub (on rank 0, of the hub); empty where the hub is reached by an inherited
  /// descriptor or a Unix socket, and so on this host.
  const std::string& local_address() const noexcept { return local_address_; }

  /// Sends the packed addresses and blocks until those of all ranks have come. Throws what kept them from coming.
  void join(std::string_view my_addresses);

  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  const JobKey& key() const noexcept { return key_; }
  /// Throws Error where there is no key and strangers may call this address, unless the user wants it so.
  void check_secure(const asio::ip::address& address) const;
  /// The job as the hub names it, for the handshakes of links.
  const std::string& job_id() const noexcept { return job_id_; }
  std::uint32_t attempt() const noexcept { return attempt_; }

  /// To wait on for readability; -1 when there is nothing to wait for (no hub, or it ended in `poll`).
  int descriptor() const noexcept { return socket_.get(); }

  /// The next notice, if one has come: at most one non-blocking recv. What could not be written before is tried again
  /// here. When the hub ends without a goodbye, that is a notice too (`dead` rank 0, or `abort` without a launcher).
  std::optional<Notice> poll();

  /// Never blocks: what the socket does not take now is kept for `poll`.
  void tell(const Notice& notice) noexcept;

  /// Tells the others that this rank leaves in order, and waits a moment (at most 200 ms) until it is written.
  void goodbye() noexcept;

 private:
  void take_inherited();
  void start_hub();
  void listen(HubThread& hub, const MeetingPoint& point);
  [[noreturn]] void name_holder(const MeetingPoint& point, const std::string& cause);
  void find_hub();
  bool try_hub(std::string& cause);
  bool try_address(const sockaddr* address, socklen_t length, const std::string& name, std::string& cause);
  void bear_stranger(const HubCall& call, Time called, const std::string& name);
  void take_welcome();
  HandshakeTerms terms() const;
  ControlMessage receive(Time until);
  std::optional<Notice> take(ControlMessage message);
  bool flush() noexcept;
  std::optional<Notice> hub_ended(const std::string& cause);

  Identity identity_;
  Config config_;
  Log log_;
  Time deadline_;
  std::string job_id_;
  std::uint32_t attempt_ = 0;
  JobKey key_;
  std::string local_address_;
  std::vector<std::string> addresses_;
  std::string stranger_;                     ///< at this address somebody listens and gives no answer,
  Time stranger_since_;                      ///< at every call since then
  std::optional<MeetingFile> meeting_file_;  ///< on rank 0
  std::unique_ptr<HubThread> hub_;           ///< on rank 0, where it is the meeting point
  Descriptor socket_;
  Descriptor ended_;  ///< by the hub: its number is nobody else's as long as somebody may wait for it
  ControlReader reader_;
  std::string unsent_;
  bool hub_left_ = false;  ///< rank 0, whose thread the hub is, said goodbye
};

}  // namespace rondo::detail
