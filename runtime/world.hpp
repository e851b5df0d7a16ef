#pragma once

#include <memory>

#include <rondo/config.hpp>

#include "runtime/control.hpp"
#include "runtime/engine.hpp"
#include "runtime/identity.hpp"
#include "runtime/mesh.hpp"
#include "runtime/poll_waiter.hpp"

namespace rondo::detail {

/// All that one rank of a real job owns, from the bootstrap to the goodbye.
class World {
 public:
  World(const Identity& identity, const Config& config);
  /// The same, and never destroyed in a child that the process forked: it would undo what the parent still uses.
  static std::shared_ptr<World> join(const Identity& identity, const Config& config);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Engine& engine() noexcept { return engine_; }
  Group& group();

 private:
  const Log log_;
  const SteadyClock clock_;
  PollWaiter waiter_;
  Control control_;
  Mesh mesh_;
  Engine engine_;
  const int exceptions_;  // in flight when it was made
};

/// The settings of an engine that `config` asks for, for this rank.
Engine::Settings engine_settings(const Identity& identity, const Config& config);

}  // namespace rondo::detail
