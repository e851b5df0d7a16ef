// Collectives on buffers from `allocate`: the same results as on ordinary ones, whoever has which.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/caches.hpp"
#include "runtime/engine.hpp"
#include "tests/collectives/harmonic.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr detail::LastCaches kNoCaches{0, 1};
constexpr detail::LastCaches kLargeCaches{std::size_t{1} << 30, 1};

/// Whose buffers lie where.
enum class Where { two_regions, one_region, not_of_rank_0, inputs_only, ordinary };

/// Buffers of a rank, at another place on each.
class Places {
 public:
  explicit Places(Communicator& world)
      : rank_(static_cast<std::size_t>(world.rank())),
        most_(kBlock * static_cast<std::size_t>(world.size())),
        one_(rondo::allocate<float>(world, 2 * most_ + 100)),
        two_(rondo::allocate<float>(world, most_ + 100)) {}

  void choose(Where where) { where_ = where; }
  std::span<float> input(std::size_t count) {
    return is_ordinary() ? own(first_, count) : part(one_, 3 * rank_, count);
  }
  std::span<float> output(std::size_t count) {
    if (is_ordinary() || where_ == Where::inputs_only) return own(second_, count);
    return where_ == Where::one_region ? part(one_, most_ + 50 + rank_, count) : part(two_, 7 * rank_, count);
  }

 private:
  bool is_ordinary() const { return where_ == Where::ordinary || (where_ == Where::not_of_rank_0 && rank_ == 0); }
  static std::span<float> own(std::vector<float>& memory, std::size_t count) {
    memory.resize(count);
    return memory;
  }
  static std::span<float> part(SharedBuffer<float>& memory, std::size_t begin, std::size_t count) {
    return memory.span().subspan(begin, count);
  }

  Where where_ = Where::ordinary;
  std::size_t rank_;
  std::size_t most_;
  SharedBuffer<float> one_;
  SharedBuffer<float> two_;
  std::vector<float> first_;
  std::vector<float> second_;
};

/// One collective: from `in` to `out`, whose lengths may be 0 on ranks that have none.
struct Case {
  std::string name;
  std::function<std::size_t(int rank, int size)> in, out;
  std::function<void(Communicator&, std::span<const float>, std::span<float>)> run;
  bool rooted = false;
};

std::vector<Case> cases(int root) {
  const auto block = [](int, int) { return kBlock; };
  const auto all = [](int, int size) { return kBlock * static_cast<std::size_t>(size); };
  const auto block_at_root = [root](int rank, int) { return rank == root ? kBlock : 0; };
  const auto all_at_root = [root, all](int rank, int size) { return rank == root ? all(rank, size) : 0; };
  using In = std::span<const float>;
  using Out = std::span<float>;
  return {
      {"all_reduce", block, block, [](Communicator& world, In in, Out out) { all_reduce(world, in, out, sum); }},
      {"direct all_reduce", block, block,
       [](Communicator& world, In in, Out out) { all_reduce(world, in, out, sum, {Algorithm::direct}); }},
      {"reduce", block, block_at_root,
       [root](Communicator& world, In in, Out out) { reduce(world, in, out, sum, root); }, true},
      {"reduce_scatter", all, block, [](Communicator& world, In in, Out out) { reduce_scatter(world, in, out, sum); }},
      {"all_gather", block, all, [](Communicator& world, In in, Out out) { all_gather(world, in, out); }},
      {"gather", block, all_at_root, [root](Communicator& world, In in, Out out) { gather(world, in, out, root); },
       true},
      {"scatter", all_at_root, block, [root](Communicator& world, In in, Out out) { scatter(world, in, out, root); },
       true},
      {"all_to_all", all, all, [](Communicator& world, In in, Out out) { all_to_all(world, in, out); }},
  };
}

/// The same in one buffer of `count(size)` elements.
struct InPlace {
  std::string name;
  std::function<std::size_t(int size)> count;
  std::function<void(Communicator&, std::span<float>)> run;
  bool rooted = false;
};

std::vector<InPlace> in_place(int root) {
  const auto block = [](int) { return kBlock; };
  const auto all = [](int size) { return kBlock * static_cast<std::size_t>(size); };
  const auto own = [](Communicator& world, std::span<float> data) {
    return data.subspan(kBlock * static_cast<std::size_t>(world.rank()), kBlock);
  };
  using Data = std::span<float>;
  return {
      {"all_reduce", block, [](Communicator& world, Data data) { all_reduce(world, data, sum); }},
      {"reduce", block, [root](Communicator& world, Data data) { reduce(world, data, sum, root); }, true},
      {"broadcast", block, [root](Communicator& world, Data data) { broadcast(world, data, root); }, true},
      {"reduce_scatter", all, [](Communicator& world, Data data) { reduce_scatter(world, data, sum); }},
      {"all_gather", all, [](Communicator& world, Data data) { all_gather(world, data); }},
      {"gather", all,
       [root, own](Communicator& world, Data data) {
         gather(world, std::span<const float>(own(world, data)), data, root);
       },
       true},
      {"scatter", all,
       [root, own](Communicator& world, Data data) {
         scatter(world, std::span<const float>(data), own(world, data), root);
       },
       true},
      {"all_to_all", all, [](Communicator& world, Data data) { all_to_all(world, data); }},
  };
}

/// What of a buffer means something after it: a rank's own block where the operation leaves it no more.
std::span<const float> meant(const InPlace& call, Communicator& world, int root, std::span<const float> data) {
  const auto rank = static_cast<std::size_t>(world.rank());
  if (call.name == "reduce_scatter" || call.name == "scatter") return data.subspan(kBlock * rank, kBlock);
  if ((call.name == "reduce" || call.name == "gather") && world.rank() != root) return {};
  return data;
}

}  // namespace

TEST_CASE("collectives on buffers that all ranks map give what they give on others, their results in the caches or not",
          "[collectives][allocate]") {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [size](Communicator& world) {
      Places places(world);
      detail::Engine& engine = *CommunicatorAccess::engine(world);
      const int rank = world.rank();
      for (int round = 0; round < 3; ++round) {  // with another root
        for (const Case& call : cases(round % size)) {
          if (round > 0 && !call.rooted) continue;
          const auto mine = harmonic(rank + round, call.in(rank, size));
          std::vector<float> wanted;
          const auto run = [&](Where where, bool past_caches) {
            engine.pretend_caches(past_caches ? kNoCaches : kLargeCaches);
            places.choose(where);
            const auto in = places.input(mine.size());
            const auto out = places.output(call.out(rank, size));
            std::copy(mine.begin(), mine.end(), in.begin());
            std::fill(out.begin(), out.end(), -1.0F);
            call.run(world, in, out);
            if (wanted.empty()) wanted.assign(out.begin(), out.end());
            const std::string what = fmt::format("{}, buffers {}{}", call.name, static_cast<int>(where),
                                                 past_caches ? ", past the caches" : "");
            require(same_bits(out, wanted), what);
            require(same_bits(in, mine), what + ": the input");
            std::fill(in.begin(), in.end(), 1e9F);  // it is the caller's again
          };
          for (const Where where :
               {Where::ordinary, Where::two_regions, Where::one_region, Where::not_of_rank_0, Where::inputs_only}) {
            for (const bool past_caches : {false, true}) run(where, past_caches);
          }
        }
      }
    });
  }
}

TEST_CASE("collectives in one mapped buffer give what they give in an ordinary one", "[collectives][allocate]") {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [size](Communicator& world) {
      Places places(world);
      detail::Engine& engine = *CommunicatorAccess::engine(world);
      for (int round = 0; round < 3; ++round) {
        const int root = round % size;
        for (const InPlace& call : in_place(root)) {
          if (round > 0 && !call.rooted) continue;
          const auto mine = harmonic(world.rank() + round, call.count(size));
          std::vector<float> wanted = mine;
          call.run(world, wanted);
          const auto run = [&](Where where, bool past_caches) {
            engine.pretend_caches(past_caches ? kNoCaches : kLargeCaches);
            places.choose(where);
            const auto data = places.input(mine.size());
            std::copy(mine.begin(), mine.end(), data.begin());
            call.run(world, data);
            require(same_bits(meant(call, world, root, data), meant(call, world, root, wanted)),
                    call.name + " in place, buffers " + std::to_string(static_cast<int>(where)));
            std::fill(data.begin(), data.end(), 1e9F);
          };
          for (const Where where : {Where::one_region, Where::not_of_rank_0}) {
            for (const bool past_caches : {false, true}) run(where, past_caches);
          }
        }
      }
    });
  }
}

TEST_CASE("blocks of all lengths, none among them, are read out of mapped buffers and of others",
          "[collectives][allocate]") {
  run_ranks(3, [](Communicator& world) {
    const std::vector<std::size_t> counts{0, 40'000, 9};
    const auto mine = harmonic(world.rank(), counts[static_cast<std::size_t>(world.rank())]);
    const auto run = [&](std::span<float> whole_in, std::span<float> out) {
      const auto in = whole_in.first(mine.size());
      std::copy(mine.begin(), mine.end(), in.begin());
      const auto check = [&](std::size_t begin, int rank) {
        const auto wanted = harmonic(rank, counts[static_cast<std::size_t>(rank)]);
        return same_bits(out.subspan(begin, wanted.size()), wanted);
      };
      std::fill(out.begin(), out.end(), 0.0F);
      all_gather(world, std::span<const float>(in), out, counts);
      require(check(0, 1) && check(40'000, 2), "all_gather by counts");
      std::fill(out.begin(), out.end(), 0.0F);
      gather(world, std::span<const float>(in), out, counts, 2);
      require(world.rank() != 2 || (check(0, 1) && check(40'000, 2)), "gather by counts");
    };
    constexpr std::size_t kTotal = 40'009;
    auto mapped_in = rondo::allocate<float>(world, kTotal);
    auto mapped_out = rondo::allocate<float>(world, kTotal);
    std::vector<float> own_in(kTotal), own_out(kTotal);
    for (const bool past_caches : {false, true}) {
      CommunicatorAccess::engine(world)->pretend_caches(past_caches ? kNoCaches : kLargeCaches);
      run(mapped_in.span(), mapped_out.span());
      run(own_in, own_out);
    }
  });
}

TEST_CASE("messages of buffers that all ranks map arrive whole, also when one has given them up",
          "[collectives][allocate]") {
  run_ranks(3, [](Communicator& world) {
    auto mapped = rondo::allocate<float>(world, 2 * kBlock);
    const int right = (world.rank() + 1) % 3, left = (world.rank() + 2) % 3;
    std::vector<float> received(kBlock);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{7}, kBlock}) {
      const auto data = mapped.span().subspan(begin, kBlock);
      std::ranges::copy(harmonic(world.rank() + static_cast<int>(begin), kBlock), data.begin());
      world.sendrecv(data, right, std::span(received), left);
      require(same_bits(received, harmonic(left + static_cast<int>(begin), kBlock)), "to another");
      world.sendrecv(data, world.rank(), std::span(received), world.rank());
      require(same_bits(received, data), "to itself");
    }
    std::vector<float> own = harmonic(world.rank(), kBlock);
    if (world.rank() == 1) mapped = {};
    const auto data = world.rank() == 1 ? std::span(own) : mapped.span().first(kBlock);
    std::ranges::copy(own, data.begin());
    world.sendrecv(data, right, std::span(received), left);
    require(same_bits(received, harmonic(left, kBlock)), "to one that has given the buffer up");
  });
}

TEST_CASE("buffers that all ranks map are reduced without a copy, to the same bits", "[collectives][allocate]") {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [](Communicator& world) {
      auto mapped = rondo::allocate<float>(world, 50'000);
      auto target = rondo::allocate<float>(world, 50'000);
      require(mapped[49'999] == 0.0F, "not zeroed");
      const std::size_t begin = 3 * static_cast<std::size_t>(world.rank());  // another place on each rank
      for (const std::size_t count : {5'000, 9'000, 40'001}) {
        const auto mine = harmonic(world.rank(), count);
        std::vector<float> wanted = mine;
        all_reduce(world, std::span(wanted), sum);
        const auto in = mapped.span().subspan(begin, count);
        std::copy(mine.begin(), mine.end(), in.begin());
        all_reduce(world, in, target.span().first(count), sum);
        require(same_bits(wanted, target.span().first(count)), "apart");
        require(same_bits(mine, in), "the input");
        all_reduce(world, in, sum);
        require(same_bits(wanted, in), "in place");
        std::vector<float> ordinary = mine;
        if (world.rank() == 0) std::copy(mine.begin(), mine.end(), in.begin());
        all_reduce(world, world.rank() == 0 ? in : std::span(ordinary), sum);
        require(same_bits(wanted, world.rank() == 0 ? in : std::span(ordinary)),
                "one rank's buffer mapped, the others' not");
      }
    });
  }
}
