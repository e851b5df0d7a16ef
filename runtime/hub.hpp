#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "runtime/hub_connection.hpp"
#include "runtime/log.hpp"
#include "runtime/notice.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {

/// Where the ranks of one job meet, and their control plane afterwards.
///
/// One gather of packed addresses, one broadcast of the table; then each control connection stays open. Its
/// end without a goodbye means that the rank is dead: all others are told, with the first cause. It also
/// compares the calls of ranks that make no progress, so that calls which never meet on the wire are found
/// out as different.
///
/// Runs on one io_context and is driven only by the thread that runs it: rondo-run's main loop, or a thread
/// of rank 0. Slow, silent and hostile clients cost it a bounded amount of memory each and no waiting.
class Hub {
 public:
  struct Limits {
    std::chrono::nanoseconds handshake{std::chrono::seconds(5)};         ///< for a stranger to authenticate itself
    std::size_t half_open = 64;                                          ///< strangers at a time; the oldest goes first
    std::chrono::nanoseconds end_grace{std::chrono::milliseconds(500)};  ///< to wait for `report_end`
    std::size_t unsent_bytes = std::size_t{4} << 20;  ///< per rank, beyond the table; who reads slower is dead
  };

  struct Job {
    std::string id;
    std::uint32_t attempt = 0;
    int size = 0;
    JobKey key;  ///< empty key: connections are not authenticated (loopback, or RONDO_INSECURE=1)
    std::chrono::nanoseconds deadline{std::chrono::seconds(300)};  ///< for all to join, after the first did
    Limits limits{};
  };

  Hub(asio::io_context& context, Job job, Log log = Log());
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// Takes a connected stream socket that is known to lead to `rank` (the launcher's socketpair): no
  /// handshake; the hub sends the job's key first. Owns `descriptor` from here on.
  void adopt(int descriptor, int rank);

  /// Listens and authenticates whoever comes. Returns "host:port" (numeric) or "unix:@name" as connected to
  /// by peers. `host` is a name or a numeric address, never the wildcard; port 0 takes a free one. Throws
  /// Error{address_in_use} naming the port.
  std::string listen_tcp(const std::string& host, std::uint16_t port);
  std::string listen_unix(const std::string& abstract_name);

  /// What the launcher knows of a rank's end ("killed by SIGKILL", "exited with status 3"), told to the
  /// others as the cause. A control connection that ends without goodbye waits a moment for this before the
  /// generic cause is used.
  void report_end(int rank, const std::string& cause);

  /// Ends the job for all ranks with this cause (the launcher was told to stop, say).
  void abort(const std::string& cause);

  /// This rank has called `init`, at the least.
  bool joined(int rank) const { return members_[static_cast<std::size_t>(rank)].joined; }
  /// True when every rank has joined and later said goodbye.
  bool finished() const;

  /// Why all ranks were told to end (a failed bootstrap, a rank's abort, `abort`); nothing while the job is
  /// well.
  const std::optional<Notice>& failure() const noexcept { return failure_; }
  /// The meeting failed before its deadline: ranks may be on their way to it still.
  bool failed_early() const {
    return phase_ == Phase::gathering && failure_ && failure_->code != Errc::bootstrap_failed;
  }

  struct Origin {
    int rank;
    std::string text;  ///< what it said; empty where it ended without a goodbye
  };
  /// With whom the trouble began, as far as the hub knows. Not who reports a peer's failure: that began elsewhere.
  const std::optional<Origin>& origin() const noexcept { return origin_; }

  /// In which call each rank waits for others, for a second or more; empty: in none.
  std::vector<std::string> where_ranks_wait() const;

  /// Connections that were turned away so far.
  std::size_t refused() const noexcept { return refused_; }
  std::size_t half_open() const noexcept;

  /// Stops listening, lets the rest be written, then ends every connection: `closed` once the other sides
  /// have ended theirs too. What is still open when the hub is destroyed is cut.
  void close();
  bool closed() const noexcept { return closing_ && connections_.empty(); }

 private:
  using Id = std::uint64_t;
  enum class Phase : std::uint8_t { gathering, running };

  struct Stall {
    Notice said;
    bool given_up = false;
    /// The call of that number, as far as it is known.
    const Call* call_at(std::uint64_t at) const noexcept {
      if (at == said.number) return &said.call;
      return at < said.number && said.number - at <= said.before.size() ? &said.before[said.number - at - 1] : nullptr;
    }
  };
  /// A thread of a rank.
  struct Wait {
    std::string call;
    std::vector<int> awaited;  ///< none: what it waits for is under way
  };
  struct Member {
    std::optional<Id> connection;
    bool adopted = false;
    bool joined = false;
    bool left = false;
    bool dead = false;
    std::string addresses;
    std::string where;
    std::map<std::uint64_t, Stall> stalls;  ///< by communicator
    std::map<std::uint64_t, Wait> waits;    ///< by the rank's number
  };
  struct Listener {
    Listener(asio::io_context& context, int socket) : stream(context, socket), pause(context) {}
    asio::posix::stream_descriptor stream;
    asio::steady_timer pause;
  };

  // Connections (hub.cpp).
  template <typename F>
  auto while_alive(F handler);
  void listen(int socket);
  void watch_hosts();
  void arm_accept(Listener& listener);
  void accept(Listener& listener);
  void add(int socket, const std::string& where);
  void make_room();
  std::size_t unsent_limit() const noexcept;
  void arm_read(Id id);
  void arm_write(Id id, HubConnection& connection);
  bool read_some(Id id);
  void take_messages(Id id, HubConnection& connection);
  void shake_hands(Id id, HubConnection& connection);
  void refuse(Id id, HubConnection& connection);
  void write(Id id, const std::string& bytes);
  void advise(int rank, const Notice& notice);
  void drop(Id id, const std::string& cause);
  void retire(HubConnection& connection);

  // The job (hub_job.cpp).
  bool ends() const;
  Verdict admission(const HandshakeTerms& peer) const;
  void admit(Id id, HubConnection& connection, int rank);
  void take(int rank, const ControlMessage& message);
  void take_notice(int rank, const Notice& notice);
  void take_join(int rank, const Join& join);
  void shorten_deadline(std::chrono::nanoseconds patience);
  void take_stalled(int rank, Notice notice);
  void pass_on(int rank, const Notice& notice);
  void take_resumed(int rank, std::uint64_t communicator);
  void ask_who_resumed(int rank, std::uint64_t communicator);
  static bool same_call(const Stall& one, const Stall& other, std::uint64_t number);
  bool compare_calls(int rank, const Notice& notice);
  const Stall* find_stall(int rank, std::uint64_t communicator, std::uint64_t number) const;
  std::string absence(int asking, const Notice& notice) const;
  void take_goodbye(int rank);
  // What waits (hub_waits.cpp).
  void take_waits(int rank, const Notice& notice);
  static bool is_stuck(const Member& member);
  std::string circle_of(int rank) const;
  /// In which it waits; empty: in none.
  std::string call_of(int rank) const;
  void began(int rank, const std::string& text);
  void poison(Notice notice);
  void lost(int rank, const std::string& cause);
  void dead(int rank, const std::string& cause);
  void refused_member(const Handshake& handshake, const std::string& where);
  void deadline_passed();
  void fail(Notice notice);
  void flood(const Notice& notice, int except = -1);
  std::string missing_ranks() const;

  asio::io_context& context_;
  Job job_;
  Log log_;
  Phase phase_ = Phase::gathering;
  std::vector<Member> members_;
  std::map<Id, HubConnection> connections_;  ///< by age
  std::list<Listener> listeners_;
  Id next_id_ = 1;
  asio::steady_timer deadline_;
  asio::steady_timer silence_{context_};              ///< until the next look for hosts that are lost
  std::optional<std::chrono::nanoseconds> patience_;  ///< until that deadline, once somebody has joined
  std::map<int, asio::steady_timer> awaited_ends_;    ///< ranks whose end the launcher has not explained yet
  std::set<std::uint64_t> poisoned_;
  std::optional<Notice> failure_;
  std::optional<Origin> origin_;
  std::size_t refused_ = 0;
  std::string last_refusal_;
  bool closing_ = false;
  std::shared_ptr<void> alive_;  ///< handlers that outlive the hub find it gone
};

template <typename F>
auto Hub::while_alive(F handler) {
  return [alive = std::weak_ptr<void>(alive_), handler = std::move(handler)](auto... arguments) mutable {
    if (alive.lock()) handler(arguments...);
  };
}

}  // namespace rondo::detail
