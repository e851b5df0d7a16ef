#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rondo/tuning.hpp>

#include "collectives/prepared.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/random/job.hpp"

namespace rondo::testing {
namespace {

/// x -> a * x + b, and a sum: three bytes.
struct Map {
  std::uint8_t a, b, c;
  friend bool operator==(const Map&, const Map&) = default;
};

/// One after the other: associative, does not commute.
constexpr auto compose = [](Map first, Map second) {
  return Map{static_cast<std::uint8_t>(first.a * second.a), static_cast<std::uint8_t>(second.a * first.b + second.b),
             static_cast<std::uint8_t>(first.c + second.c)};
};

/// Any bits, or numbers whose sums are exact.
template <typename T>
T element_of(std::uint64_t salt, int rank, std::size_t i) {
  std::uint64_t x = (salt + static_cast<std::uint64_t>(rank) * 0xd1342543de82ef95u + i) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  if constexpr (std::is_same_v<T, Map>) {
    return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(x >> 8), static_cast<std::uint8_t>(x >> 16)};
  } else if constexpr (std::is_same_v<T, float16>) {
    return T(static_cast<float>(x >> 60));
  } else {
    return static_cast<T>(std::is_same_v<T, std::int32_t> ? x >> 40 : x);
  }
}

/// The same on all members.
Options options_for(const CollectiveStep& step, const Communicator& group) {
  Options options = step.options;
  options.deterministic &= reduces(step.collective);
  Question question = detail::question_for(step.collective, CommunicatorAccess::group(group, "options"));
  question.commutative = step.kind != Kind::compose_maps;
  question.by_counts = step.collective == Collective::all_to_all && step.by_counts;
  question.deterministic = options.deterministic ||
                           (reduces(step.collective) && CommunicatorAccess::engine(group)->settings().deterministic);
  std::vector<Algorithm> valid{Algorithm::automatic};
  for (const auto& some : {algorithms_of(step.collective), shared_algorithms_of(step.collective)}) {
    std::ranges::copy_if(some, std::back_inserter(valid), [&](Algorithm one) { return is_valid(question, one); });
  }
  if (is_valid(question, Algorithm::two_level)) valid.push_back(Algorithm::two_level);
  options.algorithm = valid[step.lot % valid.size()];
  return options;
}

// A collective that is waited for, and one that is started.
constexpr std::pair kAllReduce{[](auto&... a) { all_reduce(a...); }, [](auto&... a) { return iall_reduce(a...); }};
constexpr std::pair kReduce{[](auto&... a) { reduce(a...); }, [](auto&... a) { return ireduce(a...); }};
constexpr std::pair kBroadcast{[](auto&... a) { broadcast(a...); }, [](auto&... a) { return ibroadcast(a...); }};
constexpr std::pair kScatter{[](auto&... a) { scatter(a...); }, [](auto&... a) { return iscatter(a...); }};
constexpr std::pair kGather{[](auto&... a) { gather(a...); }, [](auto&... a) { return igather(a...); }};
constexpr std::pair kAllGather{[](auto&... a) { all_gather(a...); }, [](auto&... a) { return iall_gather(a...); }};
constexpr std::pair kReduceScatter{[](auto&... a) { reduce_scatter(a...); },
                                   [](auto&... a) { return ireduce_scatter(a...); }};
constexpr std::pair kAllToAll{[](auto&... a) { all_to_all(a...); }, [](auto&... a) { return iall_to_all(a...); }};
constexpr std::pair kBarrier{[](auto&... a) { barrier(a...); }, [](auto&... a) { return ibarrier(a...); }};

template <typename T, typename Op>
class TypedCollective final : public Job {
 public:
  TypedCollective(const CollectiveStep& step, const Communicator& group, Op op, Memory& memory, std::minstd_rand& own)
      : step_(step),
        options_(options_for(step, group)),
        op_(op),
        rank_(group.rank()),
        size_(group.size()),
        own_begin_(step.counts.size() == static_cast<std::size_t>(size_) ? begin_of(rank_) : 0),
        in_count_(input_count()),
        out_count_(result().size()),
        in_place_(own() % 2 == 0 && in_count_ > 0 && out_count_ > 0 &&
                  !(step.collective == Collective::all_to_all && step.by_counts)),
        out_memory_(memory.place((in_place_ ? std::max(in_count_, out_count_) : out_count_) * sizeof(T), step.shared)),
        in_memory_(in_place_ ? out_memory_ : memory.place(in_count_ * sizeof(T), step.shared)),
        // In place, the shorter one is the caller's own block of the longer one.
        in_(in_memory_.template as<T>().subspan(in_place_ && in_count_ < out_count_ ? own_begin_ : 0, in_count_)),
        out_(out_memory_.template as<T>().subspan(in_place_ && out_count_ < in_count_ ? own_begin_ : 0, out_count_)) {}

  Work call(Communicator& group, int repeat, bool blocking) override {
    salt_ = step_.salt + static_cast<std::uint64_t>(repeat) * 0x632be59bd9b4e019u;
    for (std::size_t i = 0; i < out_.size(); ++i) out_[i] = element_of<T>(~salt_, rank_, i);
    const std::span<T> given = step_.collective == Collective::broadcast && is_root() ? out_ : in_;
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = element_of<T>(salt_, rank_, i);
    Work work = start(group, blocking);
    if (!work.valid()) check({});
    return work;
  }

  void check(const Status&) override {
    in_memory_.check_margins();
    out_memory_.check_margins();
    const std::vector<T> wanted = result();
    for (std::size_t i = 0; i < out_.size(); ++i) require(out_[i] == wanted[i], "result", i);
    for (std::size_t i = 0; i < in_.size() && !in_place_; ++i) {
      require(in_[i] == element_of<T>(salt_, rank_, i), "input", i);
    }
  }

 private:
  bool is_root() const { return rank_ == step_.root; }
  std::size_t count_of(int rank) const { return step_.counts[static_cast<std::size_t>(rank)]; }
  std::size_t begin_of(int rank) const {
    return std::accumulate(step_.counts.begin(), step_.counts.begin() + rank, std::size_t{0});
  }
  // Of all_to_all.
  std::size_t sent(int from, int to) const { return count_of(from * size_ + to); }
  std::size_t sent_before(int from, int to) const { return begin_of(from * size_ + to) - begin_of(from * size_); }

  std::size_t input_count() const {
    switch (step_.collective) {
      case Collective::all_reduce:
      case Collective::reduce: return count_of(0);
      case Collective::scatter: return is_root() ? begin_of(size_) : 0;
      case Collective::reduce_scatter: return begin_of(size_);
      case Collective::gather:
      case Collective::all_gather: return count_of(rank_);
      case Collective::all_to_all: return sent_before(rank_, size_);
      default: return 0;
    }
  }

  Work start(Communicator& group, bool blocking) {
    const auto either = [&](const auto& forms, const auto&... arguments) {
      if (!blocking) return forms.second(group, arguments..., options_);
      forms.first(group, arguments..., options_);
      return Work();
    };
    const std::span<const T> in = in_;
    const std::span<T> out = out_;
    const std::span<const std::size_t> counts = step_.counts;
    const int root = step_.root;
    const bool even = !step_.by_counts;
    switch (step_.collective) {
      case Collective::all_reduce: return either(kAllReduce, in, out, op_);
      case Collective::reduce: return either(kReduce, in, out, op_, root);
      case Collective::broadcast: return either(kBroadcast, out, root);
      case Collective::scatter: return even ? either(kScatter, in, out, root) : either(kScatter, in, out, counts, root);
      case Collective::gather: return even ? either(kGather, in, out, root) : either(kGather, in, out, counts, root);
      case Collective::all_gather: return even ? either(kAllGather, in, out) : either(kAllGather, in, out, counts);
      case Collective::reduce_scatter:
        return even ? either(kReduceScatter, in, out, op_) : either(kReduceScatter, in, out, counts, op_);
      case Collective::all_to_all: {
        if (even) return either(kAllToAll, in, out);
        std::vector<std::size_t> sends, receives;
        for (int other = 0; other < size_; ++other) {
          sends.push_back(sent(rank_, other));
          receives.push_back(sent(other, rank_));
        }
        return either(kAllToAll, in, out, sends, receives);
      }
      default: return either(kBarrier);
    }
  }

  /// The model: what the output must be.
  std::vector<T> result() const {
    std::vector<T> wanted;
    const auto copy = [&](int rank, std::size_t begin, std::size_t count) {
      for (std::size_t i = begin; i < begin + count; ++i) wanted.push_back(element_of<T>(salt_, rank, i));
    };
    const auto combine = [&](std::size_t begin, std::size_t count) {
      for (std::size_t i = begin; i < begin + count; ++i) wanted.push_back(combined(i));
    };
    switch (step_.collective) {
      case Collective::all_reduce: combine(0, count_of(0)); break;
      case Collective::reduce: combine(0, is_root() ? count_of(0) : 0); break;
      case Collective::reduce_scatter: combine(own_begin_, count_of(rank_)); break;
      case Collective::broadcast: copy(step_.root, 0, count_of(0)); break;
      case Collective::scatter: copy(step_.root, own_begin_, count_of(rank_)); break;
      case Collective::gather:
        if (!is_root()) break;
        [[fallthrough]];
      case Collective::all_gather:
        for (int rank = 0; rank < size_; ++rank) copy(rank, 0, count_of(rank));
        break;
      case Collective::all_to_all:
        for (int rank = 0; rank < size_; ++rank) copy(rank, sent_before(rank, rank_), sent(rank, rank_));
        break;
      default: break;
    }
    return wanted;
  }
  T combined(std::size_t i) const {
    T all = element_of<T>(salt_, 0, i);
    for (int rank = 1; rank < size_; ++rank) all = static_cast<T>(op_(all, element_of<T>(salt_, rank, i)));
    if constexpr (std::is_same_v<Op, Avg>) all /= size_;
    return all;
  }

  static void require(bool right, const char* what, std::size_t i) {
    if (!right) throw std::runtime_error("wrong " + std::string(what) + ": element " + std::to_string(i));
  }

  const CollectiveStep& step_;
  const Options options_;
  const Op op_;
  const int rank_, size_;
  const std::size_t own_begin_;
  std::uint64_t salt_ = 0;
  const std::size_t in_count_, out_count_;
  const bool in_place_;
  Place out_memory_, in_memory_;
  const std::span<T> in_, out_;
};

}  // namespace

std::unique_ptr<Job> make_collective(const CollectiveStep& step, const Communicator& group, Memory& memory,
                                     std::minstd_rand& own) {
  const auto make = [&]<typename T, typename Op>(T, Op op) -> std::unique_ptr<Job> {
    return std::make_unique<TypedCollective<T, Op>>(step, group, op, memory, own);
  };
  switch (step.kind) {
    case Kind::xor_bytes: return make(std::uint8_t{}, bxor);
    case Kind::avg_ints: return make(std::int32_t{}, avg);
    case Kind::sum_words: return make(std::uint64_t{}, sum);
    case Kind::sum_halves: return make(float16{}, sum);
    default: return make(Map{}, compose);
  }
}

}  // namespace rondo::testing
