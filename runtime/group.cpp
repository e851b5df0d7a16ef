#include "runtime/group.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

std::uint64_t key_of(const FrameHeader& header) {
  return header.context == FrameHeader::collective ? std::uint64_t{header.number} << 32 | header.tag
                                                   : std::uint64_t{header.tag};
}

}  // namespace

Group::Group(Engine& engine, std::uint64_t id, std::vector<int> members)
    : engine_(engine), id_(id), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) index_.emplace(members_[i], static_cast<int>(i));
  rank_ = member(engine_.settings().rank);
  const auto& hosts = engine_.settings().hosts;
  const auto host = [&](int rank) { return hosts.empty() ? -1 : hosts[static_cast<std::size_t>(rank)]; };
  one_host_ = !members_.empty() && host(members_[0]) >= 0 &&
              std::all_of(members_.begin(), members_.end(), [&](int rank) { return host(rank) == host(members_[0]); });
}

Group::~Group() {
  for (auto& messages : unexpected_) {
    while (Unexpected* message = messages.head()) drop_unexpected(*message);
  }
}

int Group::member(int world_rank) const {
  const auto found = index_.find(world_rank);
  return found == index_.end() ? -1 : found->second;
}

// Matching.

ReceiveMessage* Group::match(const FrameHeader& header, int source) {
  const std::uint64_t key = key_of(header);
  auto& posted = posted_[header.context];
  for (ReceiveMessage* receive = posted.head(); receive; receive = posted.next(*receive)) {
    if (!receive->matches(source, key)) continue;
    posted.remove(*receive);
    if (receive->peer_rank() == any_source) {
      engine_.expect_any(-1);
      receive->expect_from(engine_.peer(world_rank(source)));
    }
    return receive;
  }
  return nullptr;
}

void Group::unpost(ReceiveMessage& receive) noexcept {
  posted_[receive.operation_ ? FrameHeader::collective : FrameHeader::point_to_point].remove(receive);
}

Unexpected* Group::find_unexpected(FrameHeader::Context context, const ReceiveMessage& receive) {
  auto& messages = unexpected_[context];
  for (Unexpected* message = messages.head(); message; message = messages.next(*message)) {
    if (!message->claimed_by && receive.matches(message->source, key_of(message->header))) return message;
  }
  return nullptr;
}

Unexpected* Group::find_unexpected(int source, Tag tag) {
  auto& messages = unexpected_[FrameHeader::point_to_point];
  for (Unexpected* message = messages.head(); message; message = messages.next(*message)) {
    if (message->claimed_by || (source != any_source && message->source != source)) continue;
    if (tag == any_tag || tag.value == message->header.tag) return message;
  }
  return nullptr;
}

Unexpected& Group::add_unexpected(const FrameHeader& header, int source) {
  Unexpected& message = *engine_.take_unexpected_memory().release();
  message.header = header;
  message.source = source;
  unexpected_[header.context].push(message);
  return message;
}

void Group::adopt(std::unique_ptr<Unexpected> early) {
  early->source = member(early->source);
  if (early->source < 0) return;
  Unexpected& message = *early.release();
  unexpected_[message.header.context].push(message);
}

void Group::drop_unexpected(Unexpected& message) {
  unexpected_[message.header.context].remove(message);
  if (message.header.kind == FrameKind::eager) {
    engine_.peer(world_rank(message.source)).consumed(message.header.bytes);
  }
  engine_.give_unexpected_memory(std::unique_ptr<Unexpected>(&message));
}

// Collectives.

std::uint32_t Group::begin(Operation& operation) {
  operations_.push(operation);
  return ++last_number_;
}

void Group::report_mismatch(const Operation& mine, int other, const Call& theirs) {
  report_failure(mismatch(mine.number(), mine.call(), other, to_string(theirs)));
}

Error Group::mismatch(std::uint32_t number, const Call& mine, int other, const std::string& theirs) const {
  return Error(Errc::collective_mismatch,
               fmt::format("the ranks called different collectives: rank {} called {}, rank {} called {}", rank_,
                           to_string(mine), other, theirs),
               {rank_, other, std::string(to_string(mine.collective)), number, 0, 0, {}});
}

bool Group::check_call(const FrameHeader& header, int source) {
  const Call theirs = std::bit_cast<Call>(header.fingerprint);
  for (Operation* mine = operations_.head(); mine; mine = operations_.next(*mine)) {
    if (mine->number() != header.number) continue;
    if (mine->call() == theirs) return true;
    report_failure(mismatch(header.number, mine->call(), source, to_string(theirs)));
    return false;
  }
  // A later one waits for this rank's call; one that is over here must not send any more.
  if (static_cast<std::int32_t>(header.number - last_number_) > 0) return true;
  report_failure(
      Error(Errc::collective_mismatch,
            fmt::format("rank {} is still in {}, which is over on rank {}", source, to_string(theirs), rank_),
            {rank_, source, std::string(to_string(theirs.collective)), header.number, 0, 0, {}}));
  return false;
}

void Group::check_early_calls(const Operation& operation) {
  auto& messages = unexpected_[FrameHeader::collective];
  for (Unexpected* message = messages.head(); message; message = messages.next(*message)) {
    if (message->header.number == operation.number() && !check_call(message->header, message->source)) return;
  }
}

// Failure.

void Group::report_failure(const Error& error) {
  if (failure_ || reported_) return;
  Control* const control = engine_.control();
  if (!control || control->descriptor() < 0) return poison(error);
  Notice notice;
  notice.kind = Notice::Kind::failed;
  notice.rank = engine_.settings().rank;
  notice.communicator = id_;
  notice.number = error.facts().number;
  notice.code = error.code();
  notice.text = error.facts().operation.empty()
                    ? error.cause()
                    : fmt::format("{} #{}: {}", error.facts().operation, error.facts().number, error.cause());
  control->tell(notice);
  reported_ = std::make_unique<Error>(error);
  reported_at_ = engine_.clock().now();
}

void Group::verdict_overdue(std::chrono::steady_clock::time_point now) {
  if (awaits_verdict() && now - reported_at_ > engine_.settings().verdict_wait) poison(*reported_);
}

void Group::poison(const Error& error) {
  if (failure_) return;
  failure_ = std::make_exception_ptr(error);
  while (Message* message = messages_.head()) message->fail(failure_);
}

void Group::member_left(int member, const std::string& cause) {
  // What it offered and nobody took is gone with it.
  for (auto& messages : unexpected_) {
    for (Unexpected* message = messages.head(); message;) {
      Unexpected* const following = messages.next(*message);
      if (message->source == member && message->header.kind == FrameKind::rts) drop_unexpected(*message);
      message = following;
    }
  }
  const Operation* concerned = nullptr;
  for (Message* message = messages_.head(); message;) {
    Message* const following = messages_.next(*message);
    if (message->awaits(member)) {
      if (message->operation()) {
        concerned = message->operation();
      } else {
        message->fail(std::make_exception_ptr(Error(Errc::peer_failed,
                                                    fmt::format("{}: rank {} {}", message->describe(), member, cause),
                                                    {rank_, member, "", 0, 0, 0, {}})));
      }
    }
    message = following;
  }
  if (!concerned) return;
  report_failure(
      Error(Errc::peer_failed, fmt::format("rank {} {}", member, cause),
            {rank_, member, std::string(to_string(concerned->call().collective)), concerned->number(), 0, 0, {}}));
}

}  // namespace rondo::detail
