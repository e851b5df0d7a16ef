#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/error.hpp>

#include "runtime/commons.hpp"
#include "runtime/list.hpp"
#include "runtime/message.hpp"
#include "transport/frame.hpp"

namespace rondo::detail {

class Engine;
class Operation;
struct InOperations;
struct InUnexpected;

/// A message that came before its receive was posted. `rts` has no payload here: it waits at the sender.
struct Unexpected : ListNode<Unexpected, InUnexpected> {
  FrameHeader header;
  int source = -1;  // in the group
  std::vector<std::byte> payload;
  bool complete = false;
  ReceiveMessage* claimed_by = nullptr;
};

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
  /// Rank of a member in the world, and back (-1: no member).
  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  int member(int world_rank) const;
  const std::vector<int>& members() const noexcept { return members_; }

  // Matching: posted receives and unexpected messages, each in order, point to point and collective apart.
  ReceiveMessage* match(const FrameHeader& header, int source);
  Unexpected* find_unexpected(FrameHeader::Context context, const ReceiveMessage& receive);
  Unexpected* find_unexpected(int source, Tag tag);
  Unexpected& add_unexpected(const FrameHeader& header, int source);
  /// A message that came before this communicator was made; its source is still a rank of the world.
  void adopt(std::unique_ptr<Unexpected> early);
  void drop_unexpected(Unexpected& message);
  void post(FrameHeader::Context context, ReceiveMessage& receive) { posted_[context].push(receive); }
  void unpost(ReceiveMessage& receive) noexcept;

  // Collectives in flight.
  std::uint32_t begin(Operation& operation);
  /// The number of one that is over before anybody could have to wait for it.
  std::uint32_t pass_number() noexcept { return ++last_number_; }
  void end(Operation& operation) noexcept { operations_.remove(operation); }
  Operation* oldest_operation() const noexcept { return operations_.head(); }
  /// Compares the call in a collective's frame with the call made here. False: they differ, and the group has failed.
  bool check_call(const FrameHeader& header, int source);
  /// A member that shares memory is in another call than `mine`.
  void report_mismatch(const Operation& mine, int other, const Call& theirs);
  /// The same for frames that came before the call was made.
  void check_early_calls(const Operation& operation);

  /// What the members share, where they are all on one host and their collectives have asked for it.
  Commons& commons() noexcept { return commons_; }
  /// All members are on one host and may share memory. The same answer on every member.
  bool one_host() const noexcept { return one_host_; }

  // Messages not yet complete.
  void add(Message& message) noexcept { messages_.push(message); }
  void remove(Message& message) noexcept { messages_.remove(message); }
  Message* first_message() const noexcept { return messages_.head(); }
  bool idle() const noexcept { return messages_.empty() && operations_.empty(); }
  bool has_unexpected() const noexcept { return !unexpected_[0].empty() || !unexpected_[1].empty(); }

  /// Something went wrong that concerns every member: tells the hub, whose verdict (the first cause in the whole job)
  /// then ends the group; without a hub it ends at once.
  void report_failure(const Error& error);
  /// Ends every message and refuses new ones. The first cause stays.
  void poison(const Error& error);
  /// Messages with this member can no longer complete.
  void member_left(int member, const std::string& cause);
  bool poisoned() const noexcept { return failure_ != nullptr; }
  std::exception_ptr failure() const noexcept { return failure_; }
  /// Throws when the group has failed.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  /// A verdict that is due but did not come: `report_failure`'s own error is used.
  bool awaits_verdict() const noexcept { return reported_ && !failure_; }
  void verdict_overdue(std::chrono::steady_clock::time_point now);

  std::uint32_t next_child() noexcept { return ++children_; }

 private:
  Error mismatch(std::uint32_t number, const Call& mine, int other, const std::string& theirs) const;

  Engine& engine_;
  const std::uint64_t id_;
  const std::vector<int> members_;
  std::unordered_map<int, int> index_;  // world rank -> member
  int rank_ = -1;
  bool one_host_ = false;
  Commons commons_;

  List<ReceiveMessage, InMatcher> posted_[2];
  List<Unexpected, InUnexpected> unexpected_[2];
  List<Operation, InOperations> operations_;
  List<Message, InGroup> messages_;

  std::uint32_t last_number_ = 0;
  std::uint32_t children_ = 0;
  std::exception_ptr failure_;
  std::unique_ptr<Error> reported_;  // to the hub, verdict outstanding
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace rondo::detail
