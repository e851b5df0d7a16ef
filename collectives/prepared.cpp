#include "collectives/prepared.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <rondo/error.hpp>

#include "runtime/engine.hpp"
#include "runtime/group.hpp"

namespace rondo::detail {
namespace {

bool is_deterministic(const CollectiveCall& request, const Group& group) {
  return request.reduction.kind() != ReduceKind::none &&
         (request.options.deterministic || group.engine().settings().deterministic);
}

/// Named for this collective by RONDO_ALGORITHM, which could not have it under any circumstances.
bool is_mistaken(const Engine::Settings& settings, Question question, Algorithm preferred) {
  if (!settings.algorithm_named[static_cast<std::size_t>(question.collective)]) return false;
  question.deterministic = question.by_counts = question.on_device = false;
  question.commutative = question.one_host = true;
  question.hosts = question.hosts_in_order = question.hosts_alike = true;
  if (is_valid(question, preferred)) return false;
  question.on_device = true;
  return !is_valid(question, preferred);
}

/// Whether it may be that a rank has no elements where others have some, and does not know where those are.
bool may_be_on_either_side(const CollectiveCall& request, const Arguments& arguments, const Group& group) {
  if (!request.by_counts || !(request.in_side.is_found || request.out_side.is_found)) return false;
  if (request.collective == Collective::all_to_all) return true;
  if (request.collective != Collective::scatter && request.collective != Collective::gather) return false;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank != request.root && arguments.blocks.count(rank) == 0) return true;
  }
  return false;
}

/// The call's wish, else the configuration's where it is possible, else the table's answer.
Choice choice_for(const CollectiveCall& request, const Arguments& arguments, const Group& group) {
  const Engine::Settings& settings = group.engine().settings();
  Question question = question_for(request.collective, group);
  // What I send in all_to_all by counts is not what others send, and who has nothing may not know on which side the
  // others are: a question that all ranks ask alike leaves both out.
  const bool agreed = request.collective != Collective::all_to_all || !request.by_counts;
  question.bytes = agreed ? arguments.blocks.total() * request.element_bytes : 0;
  question.by_counts = !agreed;
  question.on_device = agreed && request.on_device() && !may_be_on_either_side(request, arguments, group);
  question.commutative = request.reduction.commutative();
  // Nor is it known what of the memory of devices others have.
  const bool on_host = !request.on_device() && !request.in_side.is_found && !request.out_side.is_found;
  question.one_host &= agreed || on_host;
  question.deterministic = is_deterministic(request, group);

  const Algorithm preferred = settings.algorithm[static_cast<std::size_t>(request.collective)];
  const bool mistaken = request.options.algorithm == Algorithm::automatic && is_mistaken(settings, question, preferred);
  const Algorithm asked = mistaken ? preferred : request.options.algorithm;
  const std::size_t chunk_bytes = request.options.chunk_bytes != 0 ? request.options.chunk_bytes : settings.chunk_bytes;
  try {
    return choose(question, asked, preferred, chunk_bytes, settings.tuning);
  } catch (const Error& error) {
    throw Error(mistaken ? Errc::bad_configuration : error.code(),
                (mistaken ? "RONDO_ALGORITHM: " : "") + error.cause(), group.facts_of(request.collective, 0));
  }
}

Call call_for(const CollectiveCall& request, const Arguments& arguments, const Choice& choice, const Group& group) {
  constexpr std::size_t kLargest = std::numeric_limits<std::uint32_t>::max();
  Call call;
  call.collective = request.collective;
  call.algorithm = choice.algorithm;
  call.type = request.type;
  call.reduce = request.reduction.kind();
  call.root = request.root;
  call.count = arguments.count;
  call.chunk_bytes = static_cast<std::uint32_t>(std::min(choice.chunk_bytes, kLargest));
  call.element_bytes = static_cast<std::uint32_t>(request.element_bytes);
  call.extra = arguments.counts_hash ^ std::rotl(request.reduction.operator_hash(), 1);
  if (request.reduction.kind() != ReduceKind::none) {
    call.extra &= ~Call::kDeterministic;
    if (is_deterministic(request, group)) call.extra |= Call::kDeterministic;
  }
  if (request.collective == Collective::barrier) {
    call.element_bytes = 0;
  } else {
    call.extra &= ~(Call::kOnDevice | Call::kOnEither);
    if (may_be_on_either_side(request, arguments, group)) {
      call.extra |= Call::kOnEither;
    } else if (request.on_device()) {
      call.extra |= Call::kOnDevice;
    }
  }
  return call;
}

Plan plan_for(const CollectiveCall& request, Arguments& arguments, const Choice& choice, const Group& group) {
  Plan plan;
  plan.collective = request.collective;
  plan.algorithm = choice.algorithm;
  plan.root = std::max(request.root, 0);
  plan.commutative = request.reduction.commutative();
  plan.deterministic = is_deterministic(request, group);
  if (choice.chunk_bytes > 0) plan.chunk = std::max<std::size_t>(choice.chunk_bytes / request.element_bytes, 1);
  plan.blocks = std::move(arguments.blocks);
  plan.recv_blocks = std::move(arguments.recv_blocks);
  plan.by_own_counts = request.by_counts && request.collective == Collective::all_to_all;
  return plan;
}

}  // namespace

Question question_for(Collective collective, const Group& group) {
  Question question;
  question.collective = collective;
  question.ranks = group.size();
  question.oversubscribed = group.engine().settings().oversubscribed;
  question.one_host = group.one_host();
  if (const Hosts* const hosts = group.hosts()) {
    question.hosts = true;
    question.hosts_in_order = hosts->in_order();
    question.hosts_alike = hosts->alike();
  }
  return question;
}

Prepared::Prepared(const CollectiveCall& request, const Group& group)
    : arguments(check_arguments(request, group.rank(), group.size())) {
  const Choice choice = choice_for(request, arguments, group);
  call = call_for(request, arguments, choice, group);
  plan = plan_for(request, arguments, choice, group);
}

void RecentCalls::add(const CollectiveCall& request, const Prepared& prepared) {
  if (!may_be_known(request) || prepared.plan.deterministic) return;
  const Key key{request.in,
                request.out,
                request.in_count,
                request.out_count,
                request.element_bytes,
                request.options.chunk_bytes,
                request.root,
                request.collective,
                request.type,
                request.reduction.kind(),
                request.options.algorithm,
                request.in_place,
                request.options.deterministic};
  entries_[next_] = {key, {prepared, std::nullopt}};
  next_ = (next_ + 1) % entries_.size();
}

}  // namespace rondo::detail
