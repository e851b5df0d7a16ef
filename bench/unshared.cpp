#include "bench/unshared.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/all_reduce.hpp>
#include <rondo/allocate.hpp>
#include <rondo/barrier.hpp>
#include <rondo/gather.hpp>
#include <rondo/op.hpp>
#include <rondo/size.hpp>

#include "runtime/access.hpp"
#include "runtime/group.hpp"

namespace rondo::bench {
namespace {

/// What this rank and its neighbours know; one that has no neighbours needs nothing.
std::string why_no_arena(Communicator& world) {
  detail::Group& group = CommunicatorAccess::group(world, "look");
  if (!group.one_host() && !group.hosts()) return {};
  barrier(world, {group.one_host() ? Algorithm::direct : Algorithm::two_level});
  return group.neighbours().commons.no_arena();
}

std::string of_all_hosts(Communicator& world, const std::string& own) {
  using Text = std::array<char, 240>;
  Text mine{};
  own.copy(mine.data(), mine.size() - 1);
  std::vector<Text> all(world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0);
  gather(world, std::span<const Text>(&mine, 1), std::span(all), 0);
  std::set<std::string> different;
  for (const Text& text : all) different.insert(text.data());
  different.erase("");
  return fmt::format("{}", fmt::join(different, "; "));
}

}  // namespace

Unshared unshared_in_use(Communicator& world, const Settings& settings) {
  Unshared unshared;
  if (settings.device) return unshared;
  if (!facts(settings.operation).point_to_point()) unshared.collectives = of_all_hosts(world, why_no_arena(world));
  if (!settings.allocate) return unshared;
  std::vector<std::size_t> sizes = settings.sizes;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  for (const std::size_t bytes : sizes) {
    (void)allocate<std::byte>(world, bytes);
    const std::string& refused = CommunicatorAccess::group(world, "look").neighbours().commons.regions().refused();
    bool anywhere = !refused.empty();
    all_reduce(world, std::span(&anywhere, 1), lor);
    if (!anywhere) break;
    unshared.buffers = of_all_hosts(world, refused);
    unshared.buffers_from = bytes;
  }
  return unshared;
}

std::string unshared_lines(const Unshared& unshared) {
  std::string lines;
  if (!unshared.collectives.empty()) lines += fmt::format("# collectives by messages: {}\n", unshared.collectives);
  if (!unshared.buffers.empty()) {
    lines += fmt::format("# buffers of {} and more are not shared: {}\n", format_size(unshared.buffers_from),
                         unshared.buffers);
  }
  return lines;
}

}  // namespace rondo::bench
