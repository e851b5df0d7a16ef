#include "collectives/team_collective.hpp"

#include <algorithm>
#include <utility>

#include <rondo/tuning.hpp>

#include "collectives/direct.hpp"
#include "runtime/arena_forming.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {

Plan decided(Plan plan, std::size_t element_bytes, const Operation& operation, const Team& team, Nearness nearness,
             bool on_device) {
  Question question;
  question.collective = plan.collective;
  question.bytes = plan.by_own_counts ? 0 : plan.blocks.total() * element_bytes;
  question.by_counts = plan.by_own_counts;
  question.ranks = team.size();
  const Engine::Settings& settings = operation.group().engine().settings();
  question.oversubscribed = settings.oversubscribed && nearness != Nearness::none;
  question.commutative = plan.commutative;
  question.deterministic = plan.deterministic;
  question.one_host = nearness == Nearness::memory;
  question.on_device = on_device;
  const Choice choice = choose(question, Algorithm::automatic, Algorithm::automatic, 0, settings.tuning);
  plan.algorithm = choice.algorithm;
  if (plan.chunk == 0 && choice.chunk_bytes > 0) {
    plan.chunk = std::max<std::size_t>(choice.chunk_bytes / element_bytes, 1);
  }
  return plan;
}

Task Turn::come_with_arena() {
  auto came = come();
  co_await came;
  if (team_.commons.formed()) co_return;
  Task formed = form_arena(operation_, team_);
  co_await formed;
}

Task run_in_arena(Operation& operation, Team& team, HostMemory& memory, const Plan& plan, bool in_place,
                  DirectPort::Begun begun, bool& done) {
  if (!team.commons.arena()) co_return;
  DirectPort port(operation.group(), team, operation.call(), memory, in_place);
  port.belongs_to(operation);
  if (!fits(port, plan)) co_return;
  done = true;
  Task run = run_direct(port, plan, begun);
  co_await run;
}

}  // namespace rondo::detail
