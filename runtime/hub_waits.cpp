#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runtime/hub.hpp"
#include "transport/printable.hpp"

// Where the hub knows the ranks to be: in which calls that wait for others, and for whom.

namespace rondo::detail {
namespace {

constexpr std::size_t kMostWaits = 256;  // threads of a rank that wait
constexpr std::size_t kMostNamed = 8;    // ranks of a circle

}  // namespace

void Hub::take_waits(int rank, const Notice& notice) {
  auto& waits = members_[static_cast<std::size_t>(rank)].waits;
  if (notice.text.empty()) {
    waits.erase(notice.number);
    return;
  }
  if (waits.size() >= kMostWaits && !waits.contains(notice.number)) return;
  const auto [wait, is_new] = waits.insert_or_assign(notice.number, Wait{printable(notice.text), {}});
  for (const Notice::Awaited& awaited : notice.awaited) {
    if (awaited.rank >= 0 && awaited.rank < job_.size) wait->second.awaited.push_back(awaited.rank);
  }
  if (is_new) return;
  Notice answer;
  answer.kind = Notice::Kind::circle;
  answer.number = notice.number;
  answer.text = circle_of(rank);
  if (!answer.text.empty()) advise(rank, answer);
}

/// All its threads that wait, as far as is known, wait for others to begin something.
bool Hub::is_stuck(const Member& member) {
  return !member.waits.empty() && std::none_of(member.waits.begin(), member.waits.end(),
                                               [](const auto& wait) { return wait.second.awaited.empty(); });
}

/// "; rank 1 waits in recv from rank 0 with tag 8": the shortest way from whom this rank waits for back to itself.
/// Empty: there is none, or somebody whom one of them waits for may go on.
std::string Hub::circle_of(int rank) const {
  std::map<int, int> waits_for_it;  // who was looked at first
  std::vector<int> found{rank};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Member& member = members_[static_cast<std::size_t>(found[i])];
    if (member.left || member.dead) continue;  // brings nothing about
    if (!is_stuck(member)) return {};
    for (const auto& [number, wait] : member.waits) {
      for (const int awaited : wait.awaited) {
        if (waits_for_it.emplace(awaited, found[i]).second && awaited != rank) found.push_back(awaited);
      }
    }
  }
  if (!waits_for_it.contains(rank)) return {};
  std::vector<int> circle;
  for (int at = waits_for_it.at(rank); at != rank; at = waits_for_it.at(at)) circle.push_back(at);
  if (circle.empty()) return "; that is this rank itself";
  std::reverse(circle.begin(), circle.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(circle.size(), kMostNamed); ++i) {
    text += fmt::format("; rank {} waits in {}", circle[i], call_of(circle[i]));
  }
  return circle.size() > kMostNamed ? text + fmt::format("; and so on, {} ranks in all", circle.size() + 1) : text;
}

std::string Hub::call_of(int rank) const {
  const auto& waits = members_[static_cast<std::size_t>(rank)].waits;
  return waits.empty() ? "" : waits.begin()->second.call;
}

std::vector<std::string> Hub::where_ranks_wait() const {
  std::vector<std::string> calls;
  for (int rank = 0; rank < job_.size; ++rank) calls.push_back(call_of(rank));
  return calls;
}

}  // namespace rondo::detail
