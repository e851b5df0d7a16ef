#include "runtime/team.hpp"

#include <map>

namespace rondo::detail {

Hosts::Hosts(std::span<const int> host_of, int rank) {
  std::map<int, std::size_t> known;
  std::vector<std::vector<int>> hosts;
  for (const int where : host_of) {
    const std::size_t host = where < 0 ? hosts.size() : known.try_emplace(where, hosts.size()).first->second;
    if (host == hosts.size()) hosts.emplace_back();
    place_.push_back(static_cast<int>(hosts[host].size()));
    hosts[host].push_back(static_cast<int>(host_.size()));
    host_.push_back(static_cast<int>(host));
  }
  in_order_ = std::is_sorted(host_.begin(), host_.end());
  count_ = static_cast<int>(hosts.size());
  const auto shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [least, most] = std::minmax_element(hosts.begin(), hosts.end(), shorter);
  fewest_ = static_cast<int>(least->size());

  within_.members = hosts[static_cast<std::size_t>(host(rank))];
  within_.rank = place(rank);
  across_.resize(most->size());
  for (std::size_t place = 0; place < across_.size(); ++place) {
    Team& team = across_[place];
    for (const auto& members : hosts) team.members.push_back(members[place % members.size()]);
    team.rank = team.place_of(rank);
  }
}

}  // namespace rondo::detail
