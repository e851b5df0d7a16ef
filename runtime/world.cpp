#include "runtime/world.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <rondo/init.hpp>

#include "runtime/access.hpp"
#include "runtime/caches.hpp"
#include "runtime/cores.hpp"

namespace rondo {
namespace detail {

Engine::Settings engine_settings(const Identity& identity, const Config& config) {
  Engine::Settings settings;
  settings.rank = identity.rank;
  settings.size = identity.size;
  settings.eager_limit = config.eager_limit;
  settings.unexpected_bytes = config.unexpected_bytes;
  settings.timeout = config.timeout;
  settings.algorithm = config.algorithm;
  settings.algorithm_named = config.algorithm_named;
  settings.chunk_bytes = config.chunk_bytes;
  settings.tuning = read_tuning_rules(config.tuning_file);
  settings.deterministic = config.deterministic;
  settings.caches = last_caches();
  return settings;
}

namespace {

IdlePolicy idle_policy(const Machine& machine, const Config& config) {
  IdlePolicy idle = IdlePolicy::for_ranks(machine.ranks, machine.cores);
  if (config.spin) {
    idle.spin = idle.least_spin = *config.spin;
    constexpr Duration kMostBetweenLooks = std::chrono::milliseconds(20);
    idle.look = std::clamp(Duration(*config.spin) / 1000, idle.look, kMostBetweenLooks);
  }
  idle.yield = config.yield;
  return idle;
}

}  // namespace

World::World(const Identity& identity, const Config& config)
    : log_(config.log_level, identity.rank),
      control_(identity, config, log_),
      mesh_(identity, config, log_, control_),
      engine_(engine_settings(identity, config), clock_, waiter_, log_),
      exceptions_(std::uncaught_exceptions()) {
  if (identity.local_rank.value_or(0) == 0) {
    for (const std::string& warning : config.warnings) log_.warn("{}", warning);
  }
  control_.join(mesh_.packed_address(tuning_summary(engine_.settings().tuning)));
  mesh_.open(control_, engine_);
  engine_.device().local_rank = identity.local_rank.value_or(mesh_.place_on_machine());
  engine_.wait_as(idle_policy(mesh_.machine(), config));
  engine_.use(control_);
  engine_.use(mesh_);
  std::vector<int> everybody(static_cast<std::size_t>(identity.size));
  std::iota(everybody.begin(), everybody.end(), 0);
  const Group& group = engine_.make_group(kWorldId, std::move(everybody));
  if (group.home_core()) move_to_core(*group.home_core());
}

World::~World() {
  engine_.progress().end_help();
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  if (unwinding) {
    Notice notice;
    notice.kind = Notice::Kind::abort;
    notice.text = fmt::format("rank {} left by an exception", engine_.settings().rank);
    control_.tell(notice);
  }
  {
    Progress::Entry entry(engine_.progress());
    engine_.leave(unwinding);
  }
  control_.goodbye();
}

std::shared_ptr<World> World::join(const Identity& identity, const Config& config) {
  return {new World(identity, config), [](World* world) {
            if (!world->engine_.progress().forked()) {
              delete world;
              return;
            }
            // What it holds is the parent's: its sockets, its threads. Kept, so that it is no leak.
            static auto* const inherited = new std::vector<World*>;
            inherited->push_back(world);
          }};
}

Group& World::group() { return *engine_.find_group(kWorldId); }

}  // namespace detail

Communicator init(const InitOptions& options) {
  const Config config = detail::configure(options, process_environment());
  try {
    const auto world = detail::World::join(detail::identify(options, config), config);
    return CommunicatorAccess::make(std::shared_ptr<detail::Engine>(world, &world->engine()), world->group());
  } catch (const std::system_error& refused) {
    throw Error(Errc::system, refused.what(), {.operation = "init"});
  } catch (...) {
    throw;  // an exception that nobody catches destroys nothing: the others would not be told
  }
}

std::string version() { return RONDO_VERSION; }

}  // namespace rondo
