#include "runtime/condition.hpp"

#include "runtime/engine.hpp"

namespace rondo::detail {

Condition::Condition(Operation& operation) : Message(operation.group(), &operation, any_source) {
  if (group_.poisoned()) {
    complete(group_.failure());
  } else {
    group_.engine().add(*this);
  }
}

Condition::~Condition() {
  if (done()) return;
  withdraw();
  complete();
}

bool Condition::look() {
  if (done() || !met()) return false;
  withdraw();
  complete();
  return true;
}

void Condition::withdraw() noexcept { group_.engine().remove(*this); }

void Condition::listen_to(int member) {
  if (!done()) expect_from(group().engine().peer(group().world_rank(member)));
}

void Condition::find_leavers() {
  Engine& engine = group().engine();
  for (int member = 0; !done() && member < group().size(); ++member) {
    if (!awaits(member)) continue;
    const Peer& peer = engine.peer(group().world_rank(member));
    if (engine.has_left(peer)) group().member_left(member, peer.cause());
  }
}

}  // namespace rondo::detail
