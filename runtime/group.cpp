#include "runtime/group.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include "runtime/control.hpp"
#include "runtime/engine.hpp"
#include "runtime/rank_list.hpp"

namespace rondo::detail {
namespace {

std::uint64_t key_of(const FrameHeader& header) {
  return header.context == FrameHeader::collective ? std::uint64_t{header.number} << 32 | header.tag
                                                   : std::uint64_t{header.tag};
}

}  // namespace

std::string destroyed_text(const std::string& member) { return member + " has destroyed the communicator"; }

Group::Group(Engine& engine, std::uint64_t id, std::vector<int> members)
    : engine_(engine), id_(id), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) index_.emplace(members_[i], static_cast<int>(i));
  rank_ = member(engine_.settings().rank);
  everybody_.members.resize(members_.size());
  std::iota(everybody_.members.begin(), everybody_.members.end(), 0);
  everybody_.rank = rank_;
  find_hosts();
  find_home_core();
}

void Group::find_hosts() {
  const auto& hosts = engine_.settings().hosts;
  if (hosts.empty() || rank_ < 0) return;
  std::vector<int> host_of;
  for (const int rank : members_) host_of.push_back(hosts[static_cast<std::size_t>(rank)]);
  one_host_ =
      host_of[0] >= 0 && std::all_of(host_of.begin(), host_of.end(), [&](int host) { return host == host_of[0]; });
  if (one_host_) return;
  hosts_.emplace(host_of, rank_);
  if (hosts_->count() == size()) hosts_.reset();
}

void Group::find_home_core() {
  const auto& places = engine_.settings().core_places;
  if (places.empty() || rank_ < 0) return;
  std::vector<int> ours;
  std::size_t own = 0;
  for (const int rank : members_) {
    if (rank == world_rank(rank_)) own = ours.size();
    if (const int place = places[static_cast<std::size_t>(rank)]; place >= 0) ours.push_back(place);
  }
  home_core_ = rondo::detail::home_core(engine_.settings().cores, ours, own,
                                        1 + *std::max_element(places.begin(), places.end()));
}

Group::~Group() {
  for (auto& messages : unexpected_) {
    while (Unexpected* message = messages.head()) drop_unexpected(*message);
  }
}

int Group::member(int world_rank) const {
  // In the world, and in many others, ranks keep their numbers.
  const auto same = static_cast<std::size_t>(world_rank);
  if (same < members_.size() && members_[same] == world_rank) return world_rank;
  const auto found = index_.find(world_rank);
  return found == index_.end() ? -1 : found->second;
}

std::vector<int> Group::sources(int from) const {
  if (from != any_source) return {from};
  std::vector<int> others;
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) others.push_back(member);
  }
  return others;
}

std::vector<Notice::Awaited> Group::in_world(std::span<const int> members) const {
  std::vector<Notice::Awaited> awaited;
  for (const int member : members) awaited.push_back({member, world_rank(member)});
  return awaited;
}

Error::Facts Group::facts_of(std::string operation, int peer) const {
  const int in_world = rank_ < 0 ? rank_ : world_rank(rank_);
  return {
      .rank = rank_, .world_rank = in_world == rank_ ? -1 : in_world, .peer = peer, .operation = std::move(operation)};
}

Error::Facts Group::facts_of(Collective collective, std::uint32_t number, int peer) const {
  Error::Facts facts = facts_of(std::string(collective == Collective::none ? "" : to_string(collective)), peer);
  facts.number = number;
  return facts;
}

std::string Group::name(std::span<const int> members) const {
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(world_rank(member));
  return member_list(members, world_ranks);
}

bool Group::rest(bool resting) noexcept {
  const bool all = everybody_.commons.rest(resting);
  return (hosts_ && hosts_->within().commons.rest(resting)) || all;
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

bool Group::awaits(const FrameHeader& header, int source) noexcept {
  auto& posted = posted_[header.context];
  for (ReceiveMessage* receive = posted.head(); receive; receive = posted.next(*receive)) {
    if (receive->matches(source, key_of(header))) return true;
  }
  return false;
}

void Group::unpost(ReceiveMessage& receive) noexcept {
  posted_[receive.operation_ ? FrameHeader::collective : FrameHeader::point_to_point].remove(receive);
}

Unexpected* Group::find_unexpected(FrameHeader::Context context, const ReceiveMessage& receive) {
  const auto wanted = [&](const Unexpected& message) {
    return !message.claimed_by && receive.matches(message.source, key_of(message.header));
  };
  const UnexpectedMessages& messages = unexpected_[context];
  if (messages.empty()) return nullptr;
  if (receive.operation()) return messages.find(receive.operation()->number(), wanted);
  if (receive.peer_rank() == any_source) return messages.find(wanted);
  return messages.find(static_cast<std::uint32_t>(receive.peer_rank()), wanted);
}

Unexpected* Group::find_unexpected(int source, Tag tag) {
  const auto wanted = [&](const Unexpected& message) {
    return !message.claimed_by && (source == any_source || source == message.source) &&
           (tag == any_tag || tag.value == message.header.tag);
  };
  const UnexpectedMessages& messages = unexpected_[FrameHeader::point_to_point];
  return source == any_source ? messages.find(wanted) : messages.find(static_cast<std::uint32_t>(source), wanted);
}

Unexpected& Group::add_unexpected(const FrameHeader& header, int source) {
  Unexpected& message = *engine_.take_unexpected_memory().release();
  message.header = header;
  message.source = source;
  unexpected_[header.context].push(message);
  return message;
}

void Group::adopt(std::unique_ptr<Unexpected> early) {
  Peer& source = engine_.peer(early->source);
  early->source = member(early->source);
  if (early->source < 0) return source.forget(*early);
  if (early->header.kind == FrameKind::rts && source.gone()) return;  // as in member_left
  Unexpected& message = *early.release();
  unexpected_[message.header.context].push(message);
}

void Group::drop_unexpected(Unexpected& message) {
  unexpected_[message.header.context].remove(message);
  Peer& source = engine_.peer(world_rank(message.source));
  if (!message.complete) {
    source.forget(message);
  } else if (message.header.kind != FrameKind::rts) {
    source.consumed(message.header);
  }
  engine_.give_unexpected_memory(std::unique_ptr<Unexpected>(&message));
}

void Group::answer_offers() {
  for (auto& messages : unexpected_) {
    for (Unexpected* message = messages.head(); message; message = messages.next(*message)) {
      if (message->header.kind == FrameKind::rts) engine_.peer(world_rank(message->source)).refuse(message->header);
    }
  }
}

// Collectives.

std::uint32_t Group::begin(Operation& operation) {
  operations_.push(operation);
  remember(++last_number_, operation.call());
  return last_number_;
}

std::uint32_t Group::done() const noexcept {
  const Operation* const oldest = oldest_operation();
  return oldest ? oldest->number() - 1 : last_number_;
}

void Group::take_stalled(const Notice& stalled) {
  const auto number = static_cast<std::uint32_t>(stalled.number);
  const auto age = static_cast<std::int32_t>(last_number_ - number);
  if (static_cast<std::int32_t>(number - done()) > 0) asked_ = stalled;
  if (age < 0 || age >= static_cast<std::int32_t>(kRemembered)) return;
  const Call& mine = calls_[number % kRemembered];
  if (mine != stalled.call) report_failure(mismatch(number, mine, member(stalled.rank), to_string(stalled.call)));
}

void Group::report_mismatch(const Operation& mine, int other, const Call& theirs) {
  if (theirs != mine.call()) return report_failure(mismatch(mine.number(), mine.call(), other, to_string(theirs)));
  report_failure(Error(Errc::collective_mismatch,
                       fmt::format("the ranks' calls differ: {} and {} are both in {}, but were not in the same calls "
                                   "before",
                                   name(rank_), name(other), to_string(theirs)),
                       facts_of(theirs.collective, mine.number(), other)));
}

Error Group::mismatch(std::uint32_t number, const Call& mine, int other, const std::string& theirs) const {
  return Error(Errc::collective_mismatch,
               fmt::format("the ranks' calls differ: {} called {}, {} called {}", name(rank_), to_string(mine),
                           name(other), theirs),
               facts_of(mine.collective, number, other));
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
  const auto age = static_cast<std::int32_t>(last_number_ - header.number);
  if (age < 0) return true;
  const bool known = age < static_cast<std::int32_t>(kRemembered);
  const Call& over = calls_[header.number % kRemembered];
  if (!known || over == theirs) {
    report_failure(more_than_asked(header.number, theirs, source));
  } else {
    report_failure(mismatch(header.number, over, source, to_string(theirs)));
  }
  return false;
}

Error Group::more_than_asked(std::uint32_t number, const Call& call, int source) const {
  return Error(Errc::collective_mismatch,
               fmt::format("{} sent more in {} than {} asked for: the counts differ", name(source), to_string(call),
                           name(rank_)),
               facts_of(call.collective, number, source));
}

const Operation* Group::oldest_of_a_thread() const noexcept {
  Operation* oldest = operations_.head();
  while (oldest && oldest->thread() == std::thread::id()) oldest = operations_.next(*oldest);
  return oldest;
}

void Group::report_count(const Operation& mine, int source, std::uint64_t bytes, std::size_t wanted) {
  if (wanted == 0) return report_failure(more_than_asked(mine.number(), mine.call(), source));
  report_failure(Error(Errc::collective_mismatch,
                       fmt::format("{} sent {} bytes where {} expected {}: counts differ between ranks", name(source),
                                   bytes, name(rank_), wanted),
                       facts_of(mine.call().collective, mine.number(), source)));
}

void Group::refuse_count(const Operation& mine, int source, std::uint64_t bytes, std::size_t wanted) {
  report_count(mine, source, bytes, wanted);
  throw ToldFailure();
}

void Group::check_left_over(const Operation& operation) {
  if (reported_) throw ToldFailure();
  const Unexpected* const message = unexpected_[FrameHeader::collective].find(
      operation.number(), [&](const Unexpected& one) { return one.header.number == operation.number(); });
  if (!message) return;
  report_failure(more_than_asked(operation.number(), operation.call(), message->source));
  throw ToldFailure();
}

std::vector<Call> Group::calls_before(std::uint32_t number) const {
  std::vector<Call> calls;
  const auto newer = last_number_ - number;  // begun since, and in the way of older ones
  for (std::uint32_t age = 1; age + newer < kRemembered && age < number; ++age) {
    calls.push_back(calls_[(number - age) % kRemembered]);
  }
  return calls;
}

void Group::check_early_calls(const Operation& operation) {
  unexpected_[FrameHeader::collective].find(
      operation.number(), [&](const Unexpected& message) { return !check_call(message.header, message.source); });
}

// Failure.

void Group::report_failure(const Error& error, std::vector<Notice::Awaited> awaited) {
  if (failure_ || reported_) return;
  if (!engine_.hears_of_failures()) return poison(error);
  Notice notice;
  notice.kind = Notice::Kind::failed;
  notice.rank = engine_.settings().rank;
  notice.communicator = id_;
  notice.number = error.facts().number;
  notice.code = error.code();
  notice.call.collective = parse_collective(error.facts().operation).value_or(Collective::none);
  notice.text = error.cause();
  notice.awaited = std::move(awaited);
  engine_.control()->tell(notice);
  reported_ = std::make_unique<Error>(error);
  // Who died must be told soon; who waited till the deadline has the time to hear for whom.
  const Engine::Settings& settings = engine_.settings();
  verdict_due_ =
      engine_.clock().now() + (error.code() == Errc::timed_out ? settings.absence_wait : settings.verdict_wait);
}

void Group::report_throw(Collective collective, std::uint32_t number, const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  report_failure(Error(Errc::peer_failed, fmt::format("{} threw: {}", name(rank_), own ? own->cause() : error.what()),
                       facts_of(collective, number, rank_)));
}

bool Group::verdict_overdue(std::chrono::steady_clock::time_point now) {
  if (!awaits_verdict() || now <= verdict_due_) return false;
  poison(*reported_);
  return true;
}

void Group::poison(const Error& error) {
  if (failure_) return;
  failure_ = std::make_exception_ptr(error);
  engine_.device().give_up_events(id_);
  while (Message* message = messages_.head()) message->fail(failure_);
}

bool Group::all_others_left() const {
  if (size() == 1 || awaits_verdict()) return false;
  const int own = engine_.settings().rank;
  const bool all = std::all_of(members_.begin(), members_.end(),
                               [&](int other) { return other == own || engine_.has_left(engine_.peer(other)); });
  return all && engine_.peer(own).link()->flushed();
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
        message->fail(message->error_of(Errc::peer_failed, fmt::format("{} {}", name(member), cause)));
      }
    }
    message = following;
  }
  if (!concerned) return;
  report_failure(Error(Errc::peer_failed, fmt::format("{} {}", name(member), cause),
                       facts_of(concerned->call().collective, concerned->number(), member)));
}

}  // namespace rondo::detail
