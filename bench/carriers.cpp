#include "bench/carriers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/cuda.hpp>
#include <rondo/gather.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/progress.hpp"

namespace rondo::bench {
namespace {

/// What a rank knows of its link to one other, as it tells it; ends in 0.
struct Seen {
  std::array<char, 16> transport{};
  std::array<char, 240> reason{};
  std::array<char, 240> long_messages{};
};

template <std::size_t Size>
void put(std::string_view text, std::array<char, Size>& into) {
  std::copy_n(text.begin(), std::min(text.size(), Size - 1), into.begin());
}

/// Every pair of ranks, one after the other around the circle.
template <typename Out, typename In>
void exchange_with_all(Communicator& world, Out mine, In theirs) {
  for (int step = 1; step < world.size(); ++step) {
    const int to = (world.rank() + step) % world.size();
    const int from = (world.rank() - step + world.size()) % world.size();
    world.sendrecv(mine, to, theirs, from);
  }
}

/// `look(engine, rank, seen)` at every other rank.
template <typename Look>
std::vector<Seen> look_at_others(const Communicator& world, const Look& look) {
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  std::vector<Seen> others(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank()) look(engine, rank, others[static_cast<std::size_t>(rank)]);
  }
  return others;
}

void look_at_link(detail::Engine& engine, int rank, Seen& seen) {
  const detail::Peer& peer = engine.peer(rank);
  if (peer.link() == nullptr) return;
  put(peer.link()->transport(), seen.transport);
  put(peer.no_shared_memory(), seen.reason);
  put(peer.link()->long_messages(), seen.long_messages);
}

void look_at_device(detail::Engine& engine, int rank, Seen& seen) {
  const detail::DeviceWay way = engine.device_peers().way(rank);
  put(way.name, seen.transport);
  put(way.reason, seen.reason);
}

void add(std::vector<Carrier>& carriers, const Seen& seen, std::pair<int, int> pair) {
  Carrier seen_of_pair{seen.transport.data(), seen.reason.data(), {}, seen.long_messages.data()};
  auto found = std::find_if(carriers.begin(), carriers.end(), [&](const Carrier& carrier) {
    return carrier.transport == seen_of_pair.transport && carrier.reason == seen_of_pair.reason &&
           carrier.long_messages == seen_of_pair.long_messages;
  });
  if (found == carriers.end()) found = carriers.insert(found, std::move(seen_of_pair));
  found->pairs.push_back(pair);
}

/// Not all of very many: the JSON report has them.
std::string pairs_text(const std::vector<std::pair<int, int>>& pairs) {
  constexpr std::size_t kMost = 28;  // of eight ranks
  std::vector<std::string> words;
  for (const auto& [low, high] : std::span(pairs).first(std::min(pairs.size(), kMost))) {
    words.push_back(fmt::format("{}-{}", low, high));
  }
  if (pairs.size() > kMost) words.push_back(fmt::format("and {} more", pairs.size() - kMost));
  return fmt::format("{}", fmt::join(words, " "));
}

/// Rank 0 hears what all have seen.
std::vector<Carrier> carriers_of(Communicator& world, const std::vector<Seen>& mine) {
  const bool asks = world.rank() == 0;
  std::vector<Seen> all(asks ? mine.size() * mine.size() : 0);
  gather(world, std::span(mine), std::span(all), 0);
  std::vector<Carrier> carriers;
  if (!asks) return carriers;
  for (int low = 0; low < world.size(); ++low) {
    for (int high = low + 1; high < world.size(); ++high) {
      add(carriers, all[static_cast<std::size_t>(low) * mine.size() + static_cast<std::size_t>(high)], {low, high});
    }
  }
  return carriers;
}

std::string line(const Carrier& carrier, const std::string& name, bool alike) {
  return fmt::format("# {}: {}{}{}\n", name, alike ? "all pairs" : pairs_text(carrier.pairs),
                     carrier.reason.empty() ? "" : " (" + carrier.reason + ")",
                     carrier.long_messages.empty() ? "" : ", long messages " + carrier.long_messages);
}

}  // namespace

std::vector<Carrier> carriers_in_use(Communicator& world) {
  const std::array<std::byte, 1> mine{};
  std::array<std::byte, 1> theirs{};
  exchange_with_all(world, std::span(mine), std::span(theirs));
  return carriers_of(world, look_at_others(world, look_at_link));
}

std::vector<Carrier> device_carriers_in_use(Communicator& world) {
  const std::size_t bytes = CommunicatorAccess::engine(world)->settings().eager_limit + 1;
  const cuda::buffer<std::byte> mine(world, bytes), theirs(world, bytes);
  exchange_with_all(world, mine.span(), theirs.span());
  return carriers_of(world, look_at_others(world, look_at_device));
}

std::string names_of(const std::vector<Carrier>& carriers) {
  std::set<std::string> names;
  for (const Carrier& carrier : carriers) names.insert(carrier.transport);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

std::string carrier_lines(const std::vector<Carrier>& carriers) {
  const bool alike = carriers.size() == 1;
  if (carriers.empty() || (alike && carriers[0].reason.empty() && carriers[0].long_messages.empty())) return {};
  std::string lines;
  for (const Carrier& carrier : carriers) lines += line(carrier, carrier.transport, alike);
  return lines;
}

std::string device_carrier_lines(const std::vector<Carrier>& carriers) {
  std::string lines;
  for (const Carrier& carrier : carriers) {
    lines += line(carrier, "memory of devices, " + carrier.transport, carriers.size() == 1);
  }
  return lines;
}

}  // namespace rondo::bench
