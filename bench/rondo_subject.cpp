#include "bench/rondo_subject.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/all_gather.hpp>
#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/init.hpp>
#include <rondo/tuning.hpp>

#include "bench/exercises.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/group.hpp"
#include "runtime/progress.hpp"

namespace rondo::bench {
namespace {

constexpr std::size_t kNameBytes = 16;
using Name = std::array<char, kNameBytes>;

/// Every pair of ranks, one after the other around the circle.
void exchange_with_all(Communicator& world) {
  const std::array<std::byte, 1> mine{};
  std::array<std::byte, 1> theirs{};
  for (int step = 1; step < world.size(); ++step) {
    const int to = (world.rank() + step) % world.size();
    const int from = (world.rank() - step + world.size()) % world.size();
    world.sendrecv(std::span(mine), to, std::span(theirs), from);
  }
}

/// Of this rank's links, with "+" between.
Name names_of_links(const Communicator& world) {
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  std::set<std::string_view> names;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    const detail::Link* const link = engine.peer(rank).link();
    if (link != nullptr) names.insert(link->transport());
  }
  Name name{};
  const std::string text = fmt::format("{}", fmt::join(names, "+"));
  std::copy_n(text.begin(), std::min(text.size(), name.size() - 1), name.begin());
  return name;
}

}  // namespace

std::string transports_in_use(Communicator& world) {
  exchange_with_all(world);
  const Name mine = names_of_links(world);
  std::vector<char> all(kNameBytes * static_cast<std::size_t>(world.size()));
  all_gather(world, std::span(mine), std::span(all));
  std::set<std::string> names;
  for (std::size_t begin = 0; begin < all.size(); begin += kNameBytes) {
    std::istringstream of_rank(all.data() + begin);
    for (std::string name; std::getline(of_rank, name, '+');) names.insert(name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

void RondoFabric::barrier() { rondo::barrier(communicator_); }

void RondoFabric::fold(std::span<double> values, Fold how) {
  if (how == Fold::max)
    all_reduce(communicator_, values, max);
  else
    all_reduce(communicator_, values, sum);
}

Algorithm chosen_algorithm(const Communicator& world, const Settings& settings, const Shape& shape) {
  const detail::Engine::Settings& engine = CommunicatorAccess::engine(world)->settings();
  Question question;
  question.collective = facts(settings.operation).collective;
  question.bytes = shape.bytes;
  question.ranks = world.size();
  question.oversubscribed = engine.oversubscribed;
  detail::Group& group = CommunicatorAccess::group(world, "choose");
  question.one_host = group.one_host();
  question.hosts = group.hosts() != nullptr;
  question.hosts_in_order = question.hosts && group.hosts()->in_order();
  return choose(question, settings.algorithm, engine.algorithm[static_cast<std::size_t>(question.collective)])
      .algorithm;
}

Subject rondo_subject(Communicator& world, const Settings& settings) {
  const auto algorithm = [&world, &settings](const Shape& shape) {
    const bool messages = facts(settings.operation).point_to_point();
    return messages ? "none" : std::string(to_string(chosen_algorithm(world, settings, shape)));
  };
  const auto exercise = [&world, &settings](const Shape& shape) { return make_exercise(world, settings, shape); };
  Subject subject{fmt::format("rondo {}", version()), transports_in_use(world), algorithm, exercise};
  if (settings.device) subject.device = measure_device(world);
  return subject;
}

}  // namespace rondo::bench
