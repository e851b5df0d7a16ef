#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <rondo/barrier.hpp>
#include <rondo/collective_call.hpp>
#include <rondo/error.hpp>
#include <rondo/tuning.hpp>

#include "collectives/arguments.hpp"
#include "collectives/collective_operation.hpp"
#include "runtime/access.hpp"

namespace rondo::detail {
namespace {

/// The call's wish, else the configuration's where it is possible, else the table's answer.
Choice choice_for(const CollectiveCall& request, const Arguments& arguments, const Group& group) {
  const Engine::Settings& settings = group.engine().settings();
  const bool commutative = request.reduction.commutative();
  Question question;
  question.collective = request.collective;
  // What I send in all_to_all by counts is not what others send: a question that all ranks ask alike leaves it out.
  const bool agreed = request.collective != Collective::all_to_all || !request.by_counts;
  question.bytes = agreed ? arguments.blocks.total() * request.element_bytes : 0;
  question.ranks = group.size();
  question.oversubscribed = settings.oversubscribed;
  question.commutative = commutative;
  question.one_host = agreed && group.one_host();

  Algorithm asked = request.options.algorithm;
  const auto index = static_cast<std::size_t>(request.collective);
  const Algorithm preferred = settings.algorithm[index];
  Question at_best = question;
  at_best.commutative = at_best.one_host = true;
  const bool mistaken = settings.algorithm_named[index] && !is_valid(at_best, preferred);
  const bool configured = asked == Algorithm::automatic && (mistaken || is_valid(question, preferred));
  if (configured) asked = preferred;
  const std::size_t chunk_bytes = request.options.chunk_bytes != 0 ? request.options.chunk_bytes : settings.chunk_bytes;
  try {
    return choose(question, asked, {}, chunk_bytes);
  } catch (const Error& error) {
    throw Error(configured ? Errc::bad_configuration : error.code(),
                (configured ? "RONDO_ALGORITHM: " : "") + error.cause(),
                {group.rank(), -1, std::string(to_string(request.collective)), 0, 0, 0, {}});
  }
}

Call call_for(const CollectiveCall& request, const Arguments& arguments, const Choice& choice) {
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
  if (request.collective == Collective::barrier) call.element_bytes = 0;
  return call;
}

Plan plan_for(const CollectiveCall& request, Arguments& arguments, const Choice& choice) {
  Plan plan;
  plan.collective = request.collective;
  plan.algorithm = choice.algorithm;
  plan.root = std::max(request.root, 0);
  plan.commutative = request.reduction.commutative();
  if (choice.chunk_bytes > 0) plan.chunk = std::max<std::size_t>(choice.chunk_bytes / request.element_bytes, 1);
  plan.blocks = std::move(arguments.blocks);
  plan.recv_blocks = std::move(arguments.recv_blocks);
  return plan;
}

/// The operation, wherever its memory shall be: `make` gets the arguments of its constructor.
template <typename Make>
auto prepare(Group& group, CollectiveCall& request, const Make& make) {
  Arguments arguments = check_arguments(request, group.rank(), group.size());
  const Choice choice = choice_for(request, arguments, group);
  const Call call = call_for(request, arguments, choice);
  Plan plan = plan_for(request, arguments, choice);
  return make(call, std::move(request), std::move(arguments), std::move(plan));
}

CollectiveCall barrier_call(const Options& options) {
  CollectiveCall request;
  request.collective = Collective::barrier;
  request.element_bytes = 1;
  request.options = options;
  return request;
}

}  // namespace

void run(Communicator& communicator, CollectiveCall request) {
  Group& group = CommunicatorAccess::group(communicator, to_string(request.collective).data());
  Progress& progress = group.engine().progress();
  Progress::Entry entry(progress);
  group.check();
  auto operation = prepare(group, request, [&](const Call& call, auto&&... rest) {
    return CollectiveOperation(group, call, std::forward<decltype(rest)>(rest)...);
  });
  if (operation.run_at_once()) return;
  operation.start();
  progress.finish(entry, operation);
  if (operation.error()) std::rethrow_exception(operation.error());
}

Work start(Communicator& communicator, CollectiveCall request) {
  Group& group = CommunicatorAccess::group(communicator, to_string(request.collective).data());
  Progress::Entry entry(group.engine().progress());
  group.check();
  auto operation = prepare(group, request, [&](const Call& call, auto&&... rest) {
    return std::make_unique<CollectiveOperation>(group, call, std::forward<decltype(rest)>(rest)...);
  });
  operation->start();
  return WorkAccess::make(CommunicatorAccess::engine(communicator), std::move(operation));
}

}  // namespace rondo::detail

namespace rondo {

void barrier(Communicator& communicator, const Options& options) {
  detail::run(communicator, detail::barrier_call(options));
}

Work ibarrier(Communicator& communicator, const Options& options) {
  return detail::start(communicator, detail::barrier_call(options));
}

}  // namespace rondo
