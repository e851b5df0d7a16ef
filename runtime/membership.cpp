#include "runtime/membership.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rondo::detail {
namespace {

struct SplitChoice {
  int color = 0;
  int key = 0;
};

// Rank 0 collects what every member wants, and tells everybody: two steps, size - 1 messages each.
class ExchangeOfChoices final : public Operation {
 public:
  ExchangeOfChoices(Group& parent, const Call& call, SplitChoice mine)
      : Operation(parent, call, std::nullopt), choices_(static_cast<std::size_t>(parent.size())) {
    choices_[static_cast<std::size_t>(parent.rank())] = mine;
  }

  const std::vector<SplitChoice>& choices() const noexcept { return choices_; }

 private:
  Task body() override {
    const auto table = std::as_writable_bytes(std::span(choices_));
    const int size = group().size();
    if (group().rank() == 0) {
      for (int rank = 1; rank < size; ++rank) {
        ReceiveMessage choice(*this, rank, 0,
                              table.subspan(static_cast<std::size_t>(rank) * sizeof(SplitChoice), sizeof(SplitChoice)));
        co_await choice;
      }
      for (int rank = 1; rank < size; ++rank) {
        SendMessage all(*this, rank, 0, table);
        co_await all;
      }
    } else {
      const auto mine =
          table.subspan(static_cast<std::size_t>(group().rank()) * sizeof(SplitChoice), sizeof(SplitChoice));
      SendMessage choice(*this, 0, 0, mine);
      co_await choice;
      ReceiveMessage all(*this, 0, 0, table);
      co_await all;
    }
  }

  std::vector<SplitChoice> choices_;
};

// Spreads the bits of a value over the whole word, so that ids made from small numbers do not meet.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

std::vector<SplitChoice> exchange(Progress::Entry& entry, Group& parent, const Call& call, SplitChoice mine) {
  parent.check();
  ExchangeOfChoices operation(parent, call, mine);
  operation.start();
  parent.engine().progress().finish(entry, operation);
  if (operation.error()) std::rethrow_exception(operation.error());
  return operation.choices();
}

// Names the ranks where a bit for each is enough; the checksum is of them in their order.
Call call_of(std::span<const int> ranks) {
  Call call;
  call.collective = Collective::subgroup;
  call.extra = ranks.size() + 1;
  for (const int rank : ranks) call.extra = mix(call.extra, static_cast<std::uint64_t>(rank));
  constexpr int kBits = 64;
  if (std::any_of(ranks.begin(), ranks.end(), [](int rank) { return rank >= kBits; })) return call;
  for (const int rank : ranks) call.count |= std::uint64_t{1} << rank;
  return call;
}

// `members` are ranks of the parent.
Group* make(Group& parent, std::uint64_t child, std::uint64_t color, std::vector<int> members) {
  for (int& member : members) member = parent.world_rank(member);
  return &parent.engine().make_group(mix(mix(parent.id(), child), color), std::move(members));
}

}  // namespace

Group* make_subgroup(Progress::Entry& entry, Group& parent, std::span<const int> ranks) {
  exchange(entry, parent, call_of(ranks), {});
  const std::uint32_t child = parent.next_child();
  if (std::find(ranks.begin(), ranks.end(), parent.rank()) == ranks.end()) return nullptr;
  return make(parent, child, 0, {ranks.begin(), ranks.end()});
}

Group* split_group(Progress::Entry& entry, Group& parent, int color, int key) {
  Call call;
  call.collective = Collective::subgroup;
  const std::vector<SplitChoice> choices = exchange(entry, parent, call, {color, key});
  const std::uint32_t child = parent.next_child();
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int rank = 0; rank < parent.size(); ++rank) {
    if (choices[static_cast<std::size_t>(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  return make(parent, child, static_cast<std::uint64_t>(color) + 1, std::move(members));
}

}  // namespace rondo::detail
