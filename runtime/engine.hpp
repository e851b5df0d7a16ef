#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <rondo/config.hpp>
#include <rondo/tuning_rules.hpp>

#include "runtime/blocked.hpp"
#include "runtime/caches.hpp"
#include "runtime/clock.hpp"
#include "runtime/condition.hpp"
#include "runtime/device_messages.hpp"
#include "runtime/device_peers.hpp"
#include "runtime/device_pieces.hpp"
#include "runtime/group.hpp"
#include "runtime/idle.hpp"
#include "runtime/log.hpp"
#include "runtime/operation.hpp"
#include "runtime/peer.hpp"
#include "runtime/progress.hpp"
#include "runtime/rank_device.hpp"
#include "runtime/waiter.hpp"

namespace rondo::detail {

class Connector;
class Control;

/// One rank: its peers, its communicators, what is ready to run, and what has failed. Link, clock and waiter are given,
/// so many engines can live in one process, threads or simulated. All under the lock of `progress()`.
class Engine {
 public:
  struct Settings {
    int rank = 0;
    int size = 1;
    std::size_t eager_limit = std::size_t{64} << 10;
    std::size_t unexpected_bytes = std::size_t{64} << 20;
    std::optional<Duration> timeout;  ///< of an operation that names none
    IdlePolicy idle;
    bool helper_thread = true;
    // What the choice of a collective's algorithm depends on. The same on all ranks, or they choose differently.
    std::array<Algorithm, Config::kCollectives> algorithm{};   ///< preferred, where it is possible
    std::array<bool, Config::kCollectives> algorithm_named{};  ///< must be possible, or is an error
    std::size_t chunk_bytes = 0;                               ///< of the pipeline; 0: the tuning table decides
    std::vector<TuningRule> tuning;                            ///< the user's own rules, before the tuning table
    bool deterministic = false;                                ///< reductions combine in rank order
    bool oversubscribed = false;                               ///< some host has more ranks than cores
    std::vector<int> hosts;                                    ///< by rank: equal ones may share memory; -1: does not
    std::vector<int> cores;                                    ///< on which this rank may run; empty: not known
    std::vector<int> core_places;                              ///< by rank: among those that may run on the same, or -1
    LastCaches caches;                                         ///< of this host's cores
    std::size_t staging_bytes = std::size_t{6} << 20;          ///< of a communicator, for collectives in shared memory
    std::size_t slices_from = std::size_t{256} << 10;          ///< bytes; see two_level.hpp
    Duration verdict_wait{std::chrono::milliseconds(900)};     ///< for the hub's word on a failure seen here
    Duration absence_wait{std::chrono::seconds(5)};            ///< for its word on who kept a call from its end in time
    Duration stall_after{std::chrono::seconds(1)};             ///< then the hub compares calls
    Duration notice_after{std::chrono::seconds(10)};           ///< then a line names who is absent; then at twice, ...
  };

  Engine(const Settings& settings, const Clock& clock, Waiter& waiter, Log log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Both must outlive the engine's last call. Without a control plane failures stay local.
  void use(Connector& connector);
  void use(Control& control);
  /// How ranks of this host wait, which their addresses have told. Before anybody has waited.
  void wait_as(const IdlePolicy& idle) {
    settings_.idle = idle;
    progress_.habits() = IdleHabits(idle);
  }
  /// What every rank read out of the same table, before the first collective.
  void agree(bool oversubscribed, std::vector<int> hosts) {
    settings_.oversubscribed = oversubscribed;
    settings_.hosts = std::move(hosts);
  }
  /// Of this rank, as `Settings` says, before its first peer.
  void share_cores(std::vector<int> cores, std::vector<int> places) {
    settings_.cores = std::move(cores);
    settings_.core_places = std::move(places);
  }

  /// For tests: as if the host had these.
  void pretend_caches(const LastCaches& caches) { settings_.caches = caches; }

  const Settings& settings() const noexcept { return settings_; }
  const Clock& clock() const noexcept { return clock_; }
  const Log& log() const noexcept { return log_; }
  /// Whether nothing was said of this reason yet: what a rank does without is said once for each.
  bool first_time(const std::string& reason) { return told_reasons_.insert(reason).second; }
  Progress& progress() noexcept { return progress_; }
  Control* control() const noexcept { return control_; }
  /// There is a hub, which tells all ranks of what concerns them.
  bool hears_of_failures() const noexcept;
  RankDevice& device() noexcept { return device_; }
  DevicePeers& device_peers() noexcept { return device_peers_; }
  DeviceMessages& device_messages() noexcept { return device_messages_; }
  DevicePieces& device_pieces() noexcept { return device_pieces_; }

  // Communicators.
  Group& make_group(std::uint64_t id, std::vector<int> members);
  void close_group(Group& group);
  Group* find_group(std::uint64_t id);
  /// It has failed, before it was closed here if it was: its ranks hear the cause itself, if not yet then soon.
  bool failed(std::uint64_t communicator);
  /// Keeps a message for a communicator that this rank has not made yet; nullptr: it was closed here.
  Unexpected* keep_early(const FrameHeader& header, int world_rank);
  /// The sender of this one has taken it back.
  void drop_unexpected(Unexpected& message);
  std::unique_ptr<Unexpected> take_unexpected_memory();
  void give_unexpected_memory(std::unique_ptr<Unexpected> memory);

  // Peers.
  Peer& peer(int world_rank) {
    const auto& known = peers_[static_cast<std::size_t>(world_rank)];
    return known ? *known : make_peer(world_rank);
  }
  /// That rank is known to wait on another core than this one, in collectives of the world.
  bool on_other_core(int world_rank) const;
  void connect(Peer& peer);
  void connected(Peer& peer);
  /// What came from there is not believed; the hub may know more.
  void peer_lost(Peer& peer, const std::string& cause);
  /// The connection ended without a goodbye: for want of room that may have gone to the hub alone.
  void peer_ended(Peer& peer, const std::string& cause);
  /// That has happened, and whether and how the peer died is about to be known: then all that concerns it fails.
  bool suspected(const Peer& peer) const noexcept;
  /// It is gone, in order, or as all know.
  bool has_left(const Peer& peer) const noexcept { return peer.gone() && !suspected(peer); }
  void peer_left(Peer& peer);
  /// In order, or by an exception, and it had seen a failure of which this rank may not have heard yet.
  void peer_left_after_error(Peer& peer);
  void peer_unreachable(int world_rank, const std::string& cause);
  /// A rank that shares memory with this one rests, and must look up.
  void wake(int world_rank);
  /// Descriptors that peers have passed, by number.
  void keep_passed(std::uint64_t number, Descriptor descriptor) { passed_[number] = std::move(descriptor); }
  /// Empty: one has been passed, for which this process had no room. Nothing: none has been.
  std::optional<Descriptor> take_passed(std::uint64_t number);
  /// Something is wrong in the job, and every rank that it concerns is told what.
  bool failure_seen() const noexcept { return failure_seen_; }
  /// The last communicator was destroyed by an exception.
  bool ends_by_exception() const noexcept { return ends_by_exception_; }
  /// How long to wait until others, and devices, are done with what is about to go: a machine may be slow. Where a rank
  /// has died, for whom a device may wait for ever, only this long.
  Duration patience(Duration after_a_death) const noexcept { return dead_.empty() ? kPatience : after_a_death; }
  void expect_any(int change) noexcept { expected_from_any_ += change; }

  // Running.
  void make_ready(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  /// It is destroyed: it is not to be resumed any more.
  void forget(std::coroutine_handle<> coroutine) noexcept;
  void add(Condition& condition) noexcept { conditions_.push(condition); }
  void remove(Condition& condition) noexcept { conditions_.remove(condition); }
  void add(Blocked& blocked) noexcept { blocked_.push(blocked); }
  void remove(Blocked& blocked) noexcept { blocked_.remove(blocked); }
  std::uint64_t next_blocked() noexcept { return ++last_blocked_; }
  void run_ready();
  /// Nobody waits for it any more, but it is not over. Returns its number, which is not 0.
  std::uint64_t finish_later(std::unique_ptr<Waitable> waitable);
  /// It is waited for once more. Nothing: it is over.
  std::unique_ptr<Waitable> take_back(std::uint64_t number);
  bool nothing_later() const noexcept { return later_.empty(); }
  /// By when all that is over. Nothing: some of it has no deadline.
  std::optional<Time> last_deadline() const noexcept;
  std::byte* take_scratch(std::size_t bytes);
  /// It is kept for later calls: the last, however long, and of others what is within some limits. nullptr: there was
  /// none to be had.
  void give_scratch(std::byte* memory, std::size_t bytes) noexcept;

  /// Where to look for news: at what is awaited, now and then at all links; at those at once; at what only the system
  /// knows, too.
  enum class Look : std::uint8_t { awaited, links, everything };
  /// Polls links and whatever else may bring news, and runs what became ready. Never blocks, never throws. `slept_for`:
  /// what it has just slept for; the system is not asked again for what was quiet.
  std::size_t poll(Look look, WakeList* slept_for = nullptr);
  /// What is awaited, as the last poll found it.
  const Polled& polled() const noexcept { return polled_; }
  /// Some of it is to come by way of the system from ranks that have been sent something.
  bool awaits_answer() const noexcept;
  /// Looks at the clock: overdue verdicts, peers that may be dead, operations that wait for the absent. Returns how
  /// much that moved, as `poll` does.
  std::size_t tick(Time now);
  /// The same, at most once in a while: for callers who look for news again and again and never wait.
  void tick_if_due();
  /// See `Link::settle`.
  void settle() noexcept;
  /// Puts into `wakes` what ends a sleep, and tells those who share memory that they must wake this rank. Returns how
  /// long one may sleep at the most; zero: not at all, something has come.
  Duration prepare_to_sleep(WakeList& wakes);
  /// After that, and after the sleep if there was one.
  void awake() { rest(false); }

  /// Waits until others have closed what they have of its devices, then says goodbye on every link and waits (a second
  /// at the most) until the other systems have what was sent.
  void leave(bool by_exception);

 private:
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr std::size_t kMostScratch = 16;
  static constexpr std::size_t kMostScratchBytes = std::size_t{256} << 20;

  struct Suspect {
    Peer* peer;
    std::string cause;
    Time since;
    enum class How : std::uint8_t { lost, ended, unreachable } how = How::lost;  // unreachable: there was no connection
  };

  /// A communicator that was destroyed here.
  struct Closed {
    bool failed = false;
    std::uint32_t done = 0;  ///< the last collective in which this rank has done its part
  };

  Peer& make_peer(int world_rank);
  bool awaits(const Peer& peer) const noexcept { return peer.awaited() || expected_from_any_ > 0; }
  bool rest(bool resting);
  std::size_t poll_control();
  void finish_what_is_over();
  /// Polls until it is done, for so long at the most.
  void linger(Duration at_most, const std::function<bool()>& done);
  void handle(const Notice& notice);
  void tell_closed(const Notice& stalled);
  void report_cut_off(int world_rank, const char* how, const std::string& cause);
  void lose(Peer& peer, const std::string& cause, Suspect::How how);
  void tell_groups_left(Peer& peer);
  void peer_dead(int world_rank, const std::string& cause);
  template <typename Action>
  void for_groups_with(int world_rank, Action action);

  Settings settings_;
  const Clock& clock_;
  Waiter& waiter_;
  const Log log_;
  std::set<std::string> told_reasons_;
  Connector* connector_ = nullptr;
  Control* control_ = nullptr;

  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, made on first use
  std::vector<Peer*> active_;                 // with a link
  bool failure_seen_ = false;
  bool ends_by_exception_ = false;
  int expected_from_any_ = 0;
  unsigned passes_ = 0;
  Polled polled_;
  Time last_tick_{};

  std::unordered_map<std::uint64_t, std::unique_ptr<Group>> groups_;
  Group* last_found_ = nullptr;
  std::map<std::uint64_t, Closed> closed_groups_;
  std::vector<std::unique_ptr<Group>> abandoned_groups_;
  std::map<std::uint64_t, std::vector<std::unique_ptr<Unexpected>>> early_;
  std::map<std::uint64_t, Notice> early_poison_;
  std::map<int, std::string> dead_;
  std::vector<Suspect> suspects_;  // lost, and not yet declared dead
  std::set<int> left_;             // said goodbye to the hub
  std::vector<Suspect> leavers_;   // before a link to them was made

  List<Condition, InEngine> conditions_;
  List<Blocked, InEngine> blocked_;
  std::uint64_t last_blocked_ = 0;
  std::map<std::uint64_t, Descriptor> passed_;

  std::vector<std::coroutine_handle<>> ready_;
  std::vector<std::coroutine_handle<>> running_;
  std::vector<std::pair<std::size_t, std::unique_ptr<std::byte[]>>> scratch_;  // not in use, the latest at the end
  std::size_t scratch_bytes_ = 0;                                              // of that
  std::vector<std::unique_ptr<Unexpected>> unexpected_memory_;
  std::size_t unexpected_bytes_ = 0;  // of that

  RankDevice device_{log_};
  DevicePieces device_pieces_{*this};
  DevicePeers device_peers_{*this};
  DeviceMessages device_messages_{*this};
  std::map<std::uint64_t, std::unique_ptr<Waitable>> later_;  // by number
  std::uint64_t last_later_ = 0;

  Progress progress_;  // last: its helper thread uses all of the above
};

}  // namespace rondo::detail
