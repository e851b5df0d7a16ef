#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/error.hpp>

#include "runtime/list.hpp"
#include "runtime/message.hpp"
#include "runtime/notice.hpp"
#include "runtime/operation.hpp"
#include "runtime/team.hpp"
#include "runtime/unexpected.hpp"
#include "transport/frame.hpp"

namespace rondo::detail {

class Engine;
class Operation;
struct InOperations;

/// What others hear when they want something of a rank that has destroyed the communicator.
std::string destroyed_text(const std::string& member);

/// Thrown by an operation that goes no further after it has told of a failure: its caller hears what all hear.
struct ToldFailure {};

/// All that this rank knows of one communicator: members, matching, the collectives in flight, and how it ended.
class Group {
 public:
  Group(Engine& engine, std::uint64_t id, std::vector<int> members);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Engine& engine() const noexcept { return engine_; }
  std::uint64_t id() const noexcept { return id_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  bool has(int member) const noexcept { return member >= 0 && member < size(); }
  /// Rank of a member in the world, and back (-1: no member).
  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  int member(int world_rank) const;
  const std::vector<int>& members() const noexcept { return members_; }
  std::vector<Notice::Awaited> in_world(std::span<const int> members) const;
  /// For an error; `peer` -1 where it is about no other member.
  Error::Facts facts_of(std::string operation, int peer = -1) const;
  /// Of a collective; number 0 where it has none yet.
  Error::Facts facts_of(Collective collective, std::uint32_t number, int peer = -1) const;
  /// "rank 1 (rank 3 of the world)", "ranks 0, 1 (ranks 2, 3 of the world)": which ones members are.
  std::string name(int member) const { return member == any_source ? "any rank" : name(std::span(&member, 1)); }
  std::string name(std::span<const int> members) const;
  /// Who may send what is received from there: that member, or for `any_source` all others.
  std::vector<int> sources(int from) const;

  // Matching: posted receives and unexpected messages, each in order, point to point and collective apart.
  ReceiveMessage* match(const FrameHeader& header, int source);
  /// Whether there is a posted receive for it.
  bool awaits(const FrameHeader& header, int source) noexcept;
  Unexpected* find_unexpected(FrameHeader::Context context, const ReceiveMessage& receive);
  Unexpected* find_unexpected(int source, Tag tag);
  Unexpected& add_unexpected(const FrameHeader& header, int source);
  /// A message that came before this communicator was made; its source is still a rank of the world.
  void adopt(std::unique_ptr<Unexpected> early);
  void drop_unexpected(Unexpected& message);
  /// Nobody will receive what others have offered.
  void answer_offers();
  void post(FrameHeader::Context context, ReceiveMessage& receive) { posted_[context].push(receive); }
  void unpost(ReceiveMessage& receive) noexcept;

  // Collectives in flight.
  std::uint32_t begin(Operation& operation);
  /// The number of one that is over before anybody could have to wait for it.
  void pass_number(const Call& call) noexcept { remember(++last_number_, call); }
  void end(Operation& operation) noexcept { operations_.remove(operation); }
  Operation* oldest_operation() const noexcept { return operations_.head(); }
  /// That a thread has not left.
  const Operation* oldest_of_a_thread() const noexcept;
  /// Compares the call in a collective's frame with the call made here. False: they differ, and the group has failed.
  bool check_call(const FrameHeader& header, int source);
  /// The same for frames that came before the call was made.
  void check_early_calls(const Operation& operation);
  /// For an operation that has done all that it had to: throws ToldFailure when more has come of it than was asked
  /// for, or this rank has found the communicator failed.
  void check_left_over(const Operation& operation);
  /// The last collective in which this rank has done its part.
  std::uint32_t done() const noexcept;
  /// A member waits in a call. Where the one of that number is known here and another, the group has failed; where
  /// this rank's part in it is not done yet, it is remembered.
  void take_stalled(const Notice& stalled);
  /// The last that was remembered.
  const std::optional<Notice>& asked() const noexcept { return asked_; }
  /// A member that shares memory is in another call than `mine`.
  void report_mismatch(const Operation& mine, int other, const Call& theirs);
  /// A member has sent so many bytes in `mine`, which wants others of it.
  void report_count(const Operation& mine, int source, std::uint64_t bytes, std::size_t wanted);
  /// The same; throws ToldFailure.
  [[noreturn]] void refuse_count(const Operation& mine, int source, std::uint64_t bytes, std::size_t wanted);
  /// The calls before this one that are still known, the latest first.
  std::vector<Call> calls_before(std::uint32_t number) const;

  /// All members.
  Team& everybody() noexcept { return everybody_; }
  /// What they share, where they are all on one host and their collectives have asked for it.
  Commons& commons() noexcept { return everybody_.commons; }
  /// All members are on one host and may share memory. The same answer on every member.
  bool one_host() const noexcept { return one_host_; }
  /// The members by host, if they are on several, and on some not alone; else nullptr. Alike on every member.
  Hosts* hosts() noexcept { return hosts_ ? &*hosts_ : nullptr; }
  const Hosts* hosts() const noexcept { return hosts_ ? &*hosts_ : nullptr; }
  /// Those on this rank's host, who may share memory: what users allocate here is theirs. All members, if none may.
  Team& neighbours() noexcept { return hosts_ ? hosts_->within() : everybody_; }
  /// See `Link::rest`.
  bool rest(bool resting) noexcept;
  /// On which core this rank is to wait in collectives; nothing: on any.
  std::optional<int> home_core() const noexcept { return home_core_; }

  // Messages not yet complete.
  void add(Message& message) noexcept { messages_.push(message); }
  void remove(Message& message) noexcept { messages_.remove(message); }
  Message* first_message() const noexcept { return messages_.head(); }
  bool idle() const noexcept { return messages_.empty() && operations_.empty(); }
  /// No point-to-point message has come early, and no receive of one is posted.
  bool awaits_nothing() const noexcept {
    return posted_[FrameHeader::point_to_point].empty() && unexpected_[FrameHeader::point_to_point].empty();
  }
  bool has_unexpected() const noexcept { return !unexpected_[0].empty() || !unexpected_[1].empty(); }

  /// Something went wrong that concerns every member: tells the hub, whose verdict (the first cause in the whole job)
  /// then ends the group; without a hub it ends at once. Who waited in vain says for whom.
  void report_failure(const Error& error, std::vector<Notice::Awaited> awaited = {});
  /// This rank's part of a collective threw (the caller's operator, memory that ran out, the driver): the others must
  /// not wait for what will not come.
  void report_throw(Collective collective, std::uint32_t number, const std::exception& error);
  /// Ends every message and refuses new ones. The first cause stays.
  void poison(const Error& error);
  /// Messages with this member can no longer complete.
  void member_left(int member, const std::string& cause);
  /// There were others, and nothing will come from them any more; and all that this rank has sent itself has come.
  bool all_others_left() const;
  bool poisoned() const noexcept { return failure_ != nullptr; }
  std::exception_ptr failure() const noexcept { return failure_; }
  /// Throws when the group has failed.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  bool awaits_verdict() const noexcept { return reported_ && !failure_; }
  /// Its ranks hear the cause, if not yet then soon.
  bool failed() const noexcept { return failure_ || reported_; }
  /// Whether a verdict is due but did not come: `report_failure`'s own error is used then.
  bool verdict_overdue(std::chrono::steady_clock::time_point now);

  std::uint32_t next_child() noexcept { return ++children_; }

  std::shared_ptr<void> recent_calls;  ///< the collectives' own, see RecentCalls

 private:
  static constexpr std::uint32_t kRemembered = 8;

  void find_hosts();
  void find_home_core();
  void remember(std::uint32_t number, const Call& call) noexcept { calls_[number % kRemembered] = call; }
  Error more_than_asked(std::uint32_t number, const Call& call, int source) const;
  Error mismatch(std::uint32_t number, const Call& mine, int other, const std::string& theirs) const;

  Engine& engine_;
  const std::uint64_t id_;
  const std::vector<int> members_;
  std::unordered_map<int, int> index_;  // world rank -> member
  int rank_ = -1;
  bool one_host_ = false;
  Team everybody_;
  std::optional<Hosts> hosts_;
  std::optional<int> home_core_;

  List<ReceiveMessage, InMatcher> posted_[2];
  UnexpectedMessages unexpected_[2];
  List<Operation, InOperations> operations_;
  List<Message, InGroup> messages_;

  std::uint32_t last_number_ = 0;
  std::optional<Notice> asked_;
  std::array<Call, kRemembered> calls_{};  // the last, by number
  std::uint32_t children_ = 0;
  std::exception_ptr failure_;
  std::unique_ptr<Error> reported_;  // to the hub, verdict outstanding
  std::chrono::steady_clock::time_point verdict_due_;
};

}  // namespace rondo::detail
