#include <span>
#include <stdexcept>
#include <vector>

#include <rondo/all_gather.hpp>
#include <rondo/all_to_all.hpp>
#include <rondo/broadcast.hpp>
#include <rondo/gather.hpp>
#include <rondo/scatter.hpp>

#include "bench/element_dispatch.hpp"
#include "bench/exercises.hpp"
#include "bench/pattern.hpp"

namespace rondo::bench {
namespace {

/// broadcast, scatter, gather, all_gather, all_to_all. A rank's input holds the rank's values from index 0 on,
/// whatever its length, so that each block of a result says which rank it came from and where it lay there.
template <typename T>
class Moving final : public Exercise {
 public:
  Moving(Communicator& communicator, const Settings& settings, const Shape& shape)
      : communicator_(communicator),
        operation_(settings.operation),
        options_(call_options(settings)),
        rank_(communicator.rank()),
        size_(communicator.size()),
        root_(settings.root),
        in_place_(settings.in_place),
        block_(shape.count) {
    lay_out(shape.bytes / sizeof(T));
  }

  void prepare(Contents) override {
    clear(std::span(second_));
    clear(std::span(first_));
    fill(input_, values_of_rank<T>(ReduceKind::none, rank_, size_));
  }

  void run() override {
    const std::span<const T> in(input_);
    switch (operation_) {
      case Operation::broadcast: return broadcast(communicator_, output_, root_, options_);
      case Operation::scatter: return scatter(communicator_, in, output_, root_, options_);
      case Operation::gather: return gather(communicator_, in, output_, root_, options_);
      case Operation::all_gather:
        return in_place_ ? all_gather(communicator_, output_, options_)
                         : all_gather(communicator_, in, output_, options_);
      default:
        return in_place_ ? all_to_all(communicator_, output_, options_)
                         : all_to_all(communicator_, in, output_, options_);
    }
  }

  std::size_t wrong() const override {
    switch (operation_) {
      case Operation::broadcast: return wrong_from(root_, output_, 0);
      case Operation::scatter: return wrong_from(root_, output_, begin_of(rank_));
      case Operation::all_to_all: return wrong_blocks(begin_of(rank_));
      default: return wrong_blocks(0);
    }
  }

 private:
  /// Makes the two buffers and says which parts of them are input and output. In place, one lies in the other.
  void lay_out(std::size_t total) {
    const bool root = rank_ == root_;
    switch (operation_) {
      case Operation::broadcast:
        output_ = resized(first_, total);
        if (root) input_ = output_;
        return;
      case Operation::scatter:
        if (root) input_ = resized(first_, total);
        output_ = root && in_place_ ? own_block(input_) : resized(second_, block_);
        return;
      case Operation::gather:
        if (root) output_ = resized(first_, total);
        input_ = root && in_place_ ? own_block(output_) : resized(second_, block_);
        return;
      case Operation::all_gather:
        output_ = resized(first_, total);
        input_ = in_place_ ? own_block(output_) : resized(second_, block_);
        return;
      case Operation::all_to_all:
        output_ = resized(first_, total);
        input_ = in_place_ ? output_ : resized(second_, total);
        return;
      default: throw std::logic_error("not an operation that only moves elements");
    }
  }

  static std::span<T> resized(std::vector<T>& buffer, std::size_t count) {
    buffer.resize(count);
    return buffer;
  }

  std::size_t begin_of(int rank) const { return static_cast<std::size_t>(rank) * block_; }
  std::span<T> own_block(std::span<T> all) const { return all.subspan(begin_of(rank_), block_); }

  /// Wrong elements of `data`, which lay at rank `source` from index `first` on.
  std::size_t wrong_from(int source, std::span<const T> data, std::size_t first) const {
    return count_wrong(data, values_of_rank<T>(ReduceKind::none, source, size_), 0, first);
  }

  /// Of an output with a block from each rank, each of which lay there from index `first` on. Nothing is expected
  /// where there is no output.
  std::size_t wrong_blocks(std::size_t first) const {
    std::size_t wrong = 0;
    for (int source = 0; !output_.empty() && source < size_; ++source)
      wrong += wrong_from(source, output_.subspan(begin_of(source), block_), first);
    return wrong;
  }

  Communicator& communicator_;
  Operation operation_;
  Options options_;
  int rank_;
  int size_;
  int root_;
  bool in_place_;
  std::size_t block_;
  std::vector<T> first_;
  std::vector<T> second_;
  std::span<T> input_;
  std::span<T> output_;
};

}  // namespace

std::unique_ptr<Exercise> make_moving(Communicator& communicator, const Settings& settings, const Shape& shape) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Moving<T>>(communicator, settings, shape);
  });
}

}  // namespace rondo::bench
