#include "collectives/collective_operation.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <rondo/algorithm/dispatch.hpp>
#include <rondo/tuning.hpp>

#include "collectives/direct.hpp"
#include "runtime/arena_forming.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// A collective's turn in the shared memory of its communicator, from its call to its end.
class Turn {
 public:
  explicit Turn(Commons& commons) : commons_(&commons), ticket_(commons.take_ticket()) {}
  ~Turn() { commons_->turn_is_over(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool has_come() const noexcept { return commons_->turn_of(ticket_); }

 private:
  Commons* commons_;
  std::uint64_t ticket_;
};

struct TurnCame {
  const Turn* turn;
  bool operator()() const noexcept { return turn->has_come(); }
  bool awaits(int) const noexcept { return false; }
};

/// The same collective by an algorithm that needs no shared memory.
Plan by_messages(Plan plan, std::size_t element_bytes, const Group& group) {
  Question question;
  question.collective = plan.collective;
  question.bytes = plan.blocks.total() * element_bytes;
  question.ranks = group.size();
  question.oversubscribed = group.engine().settings().oversubscribed;
  question.commutative = plan.commutative;
  const Choice choice = choose(question);
  plan.algorithm = choice.algorithm;
  if (plan.chunk == 0 && choice.chunk_bytes > 0)
    plan.chunk = std::max<std::size_t>(choice.chunk_bytes / element_bytes, 1);
  return plan;
}

}  // namespace

CollectiveOperation::CollectiveOperation(Group& group, const Call& call, CollectiveCall request,
                                         const Arguments& arguments, Plan plan)
    : Operation(group, call, request.options.timeout),
      memory_(group.engine(), request.element_bytes, std::move(request.reduction)),
      plan_(std::move(plan)),
      port_(*this, memory_, arguments.in_place) {
  memory_.set(arguments.input, arguments.output);
}

Task CollectiveOperation::body() {
  return shares_memory(plan_.algorithm) ? in_shared_memory() : run_collective(port_, plan_);
}

bool CollectiveOperation::run_at_once() {
  Commons& commons = group().commons();
  if (plan_.algorithm != Algorithm::direct || !commons.arena() || !commons.idle() || group().oldest_operation()) {
    return false;
  }
  DirectPort port(group(), call(), memory_, *commons.arena(), port_.in_place());
  if (!detail::run_at_once(port, plan_, entered_)) return false;
  group().pass_number();
  return true;
}

Task CollectiveOperation::in_shared_memory() {
  if (group().size() > 1) {
    Turn turn(group().commons());
    Until mine(*this, TurnCame{&turn}, 1);
    co_await mine;
    if (!group().commons().formed()) {
      Task formed = form_arena(*this);
      co_await formed;
    }
    if (Arena* const arena = group().commons().arena()) {
      DirectPort direct(group(), call(), memory_, *arena, port_.in_place());
      direct.wait_as(*this);
      if (direct.window(0, static_cast<std::size_t>(group().size())) > 0) {
        Task done = run_direct(direct, plan_, entered_);
        co_await done;
        co_return;
      }
    }
  }
  // All members know alike that there is no arena, or that it is too small for elements of this size.
  plan_ = by_messages(std::move(plan_), memory_.element_bytes(), group());
  Task done = run_collective(port_, plan_);
  co_await done;
}

}  // namespace rondo::detail
