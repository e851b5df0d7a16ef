#include "bench/tune/arena_model.hpp"

#include <algorithm>
#include <cstdint>

#include <rondo/blocks.hpp>

#include "collectives/direct.hpp"
#include "runtime/arena_forming.hpp"
#include "runtime/engine.hpp"
#include "runtime/staging_ring.hpp"

namespace rondo::bench {
namespace {

enum class Awaits { nobody, root, all };

/// What a rank does in one window, in microseconds: until it enters, after those that it awaits have entered, and after
/// those have finished.
struct WindowPart {
  double before = 0;
  double after = 0;
  Awaits awaits = Awaits::all;
  double last = 0;

  double work() const { return before + after + last; }
};

/// The parts of the root and of each other rank. Without a root all are the others.
struct WindowParts {
  WindowPart root;
  WindowPart other;
  bool two_meetings = false;
};

/// A collective of so many ranks.
class Collected {
 public:
  Collected(const Question& question, const ArenaModel& model) : question_(question), model_(model) {}

  /// In a window of so many bytes of the vector, or of each block.
  WindowParts direct(double bytes) const {
    const WindowPart combines{copy(bytes), combine(bytes, model_.access), Awaits::all};
    const WindowPart gives{copy(bytes), 0, Awaits::nobody};
    const WindowPart gives_all{copy(others() * bytes), 0, Awaits::nobody};
    const WindowPart gets{0, copy(bytes), Awaits::root};
    switch (question_.collective) {
      case Collective::all_reduce: return {combines, combines};
      case Collective::reduce: return {{0, combine(bytes, model_.access), Awaits::all}, gives};
      case Collective::broadcast: return {gives, gets};
      case Collective::scatter: return {gives_all, gets};
      case Collective::gather: return {{0, copy(others() * bytes), Awaits::all}, gives};
      case Collective::all_gather: return alike({copy(bytes), copy(others() * bytes), Awaits::all});
      case Collective::reduce_scatter:
        return alike({copy(others() * bytes), combine(bytes, model_.access), Awaits::all});
      case Collective::all_to_all: return alike({copy(others() * bytes), copy(others() * bytes), Awaits::all});
      default: return {};
    }
  }

  WindowParts sliced(double bytes) const {
    const double slice = bytes / question_.ranks;
    const WindowPart told{copy(bytes - slice), combine(slice, model_.staged), Awaits::all, copy(bytes)};
    WindowPart other = told;
    if (question_.collective == Collective::reduce) other.last = 0;
    return {told, other, true};
  }

  /// Blocks, or whole vectors, that their readers fetch.
  WindowParts fetched(double bytes) const {
    const WindowPart all{0, own(true) + pull(others() * bytes), Awaits::all};
    switch (question_.collective) {
      case Collective::broadcast:
      case Collective::scatter: return {{0, own(true), Awaits::all}, {0, pull(bytes), Awaits::all}, true};
      case Collective::gather: return {{0, own(true) + pull(others() * bytes), Awaits::all}, {0, 0, Awaits::all}, true};
      default: return {all, all, true};
    }
  }

  /// What a rank copies from its own input to its own output.
  double own(bool root) const {
    const bool rooted = question_.collective == Collective::scatter || question_.collective == Collective::gather;
    const bool moves = question_.collective == Collective::all_gather || question_.collective == Collective::all_to_all;
    const double block = static_cast<double>(question_.bytes) / question_.ranks;
    return moves || (rooted && root) ? 2 * block * model_.access * kNanoseconds : 0;
  }

 private:
  static constexpr double kNanoseconds = 1e-3;

  static WindowParts alike(const WindowPart& part) { return {part, part}; }
  double others() const { return question_.ranks - 1; }
  /// Between a rank's buffers and what the ranks share.
  double copy(double bytes) const { return bytes * (model_.access + model_.staged) * kNanoseconds; }
  /// Its own and what the others have laid out; `written`: for a byte of the result.
  double combine(double bytes, double written) const {
    return bytes * (model_.access + others() * model_.staged + written) * kNanoseconds;
  }
  /// By its owner, too, who waits for the reader alone in a gather and where they are two.
  double pull(double bytes) const {
    if (bytes == 0) return 0;
    const bool alike = question_.collective == Collective::all_gather || question_.collective == Collective::all_to_all;
    const bool jointly = question_.collective == Collective::gather || (!alike && question_.ranks == 2);
    return (jointly && !question_.oversubscribed ? 0.5 : 1) * bytes * model_.pull * kNanoseconds;
  }

  const Question& question_;
  const ArenaModel& model_;
};

/// Ranks in the middle of a collective. All but the root do the same.
class ModelClock {
 public:
  ModelClock(const Question& question, int cores, const ArenaModel& model)
      : root_(model.call),
        other_(model.call),
        work_(question.ranks * model.call),
        others_(question.ranks - 1),
        cores_(cores),
        crowded_(question.oversubscribed),
        model_(model) {}

  void copy(double root, double other) {
    root_ += root;
    other_ += other;
    work_ += root + others_ * other;
  }
  void window(const WindowParts& parts) {
    root_ += parts.root.before;
    other_ += parts.other.before;
    meet(parts);
    root_ += parts.root.after;
    other_ += parts.other.after;
    if (parts.two_meetings) meet(parts);
    root_ += parts.root.last;
    other_ += parts.other.last;
    work_ += parts.root.work() + others_ * parts.other.work();
  }
  double time() const { return std::max({root_, other_, crowded_ ? work_ / cores_ : 0}); }

 private:
  void meet(const WindowParts& parts) {
    const double all = std::max(root_, other_) + model_.meeting;
    if (parts.other.awaits == Awaits::root) other_ = std::max(other_, root_ + model_.meeting);
    if (parts.other.awaits == Awaits::all) other_ = all;
    if (parts.root.awaits == Awaits::all) root_ = all;
    work_ += model_.turn *
             ((parts.root.awaits == Awaits::nobody ? 0 : 1) + (parts.other.awaits == Awaits::nobody ? 0 : others_));
  }

  double root_;
  double other_;
  double work_;
  const double others_;
  const int cores_;
  const bool crowded_;
  const ArenaModel& model_;
};

}  // namespace

std::optional<double> arena_microseconds(const Question& question, Algorithm algorithm, int cores,
                                         const ArenaModel& model) {
  if (algorithm == Algorithm::adaptive) {
    const auto laid_out = arena_microseconds(question, Algorithm::direct, cores, model);
    const auto fetched = arena_microseconds(question, Algorithm::fetched, cores, model);
    return laid_out && fetched ? std::optional(std::min(*laid_out, *fetched)) : std::nullopt;
  }
  const std::size_t staging = detail::staging_of_member(detail::Engine::Settings().staging_bytes, question.ranks);
  const std::size_t step = detail::StagingRing(staging).most();
  if (step < static_cast<std::size_t>(question.ranks)) return std::nullopt;
  const std::size_t block = Blocks::even(question.bytes, question.ranks).largest();
  const Collected collected(question, model);
  ModelClock clock(question, cores, model);
  const bool in_blocks = question.collective != Collective::all_reduce && question.collective != Collective::reduce &&
                         question.collective != Collective::broadcast;
  const std::size_t length = question.collective == Collective::barrier ? 0 : in_blocks ? block : question.bytes;
  if (algorithm == Algorithm::fetched) {
    clock.window(collected.fetched(static_cast<double>(length)));
    return clock.time();
  }
  clock.copy(collected.own(true), collected.own(false));
  const std::size_t window = step / detail::shares_laid_out(question.collective, question.ranks);
  std::size_t begin = 0;
  do {
    const auto bytes = static_cast<double>(std::min(window, length - begin));
    clock.window(algorithm == Algorithm::sliced ? collected.sliced(bytes) : collected.direct(bytes));
    begin += window;
  } while (begin < length);
  return clock.time();
}

}  // namespace rondo::bench
