#include <span>
#include <vector>

#include <rondo/all_reduce.hpp>
#include <rondo/reduce.hpp>
#include <rondo/reduce_scatter.hpp>

#include "bench/element_dispatch.hpp"
#include "bench/exercises.hpp"
#include "bench/pattern.hpp"

namespace rondo::bench {
namespace {

/// all_reduce, reduce, reduce_scatter. In place, `out_` is the one buffer and `in_` is empty.
template <typename T>
class Reducing final : public Exercise {
 public:
  Reducing(Communicator& communicator, const Settings& settings, const Shape& shape)
      : communicator_(communicator),
        settings_(settings),
        options_(call_options(settings)),
        ranks_(communicator.size()),
        block_(shape.count) {
    const std::size_t total = shape.bytes / sizeof(T);
    if (settings.in_place) {
      out_.resize(total);
    } else {
      in_.resize(total);
      out_.resize(block_);
    }
  }

  void prepare(Contents contents) override {
    const auto mine = values_of_rank<T>(settings_.reduce, communicator_.rank(), ranks_);
    if (!settings_.in_place) {
      fill(std::span(in_), mine);
      clear(std::span(out_));
    } else if (contents == Contents::pattern) {
      fill(std::span(out_), mine);
    } else {
      std::fill(out_.begin(), out_.end(), T{});
    }
  }

  void run() override {
    with_op(settings_.reduce, [this]<typename Op>(Op op) {
      if constexpr (ReduceOp<Op, T>) settings_.in_place ? run_in_place(op) : run_apart(op);
    });
  }

  std::size_t wrong() const override {
    if (settings_.operation == Operation::reduce && communicator_.rank() != settings_.root) return 0;
    const bool scattered = settings_.operation == Operation::reduce_scatter;
    const std::size_t first = scattered ? static_cast<std::size_t>(communicator_.rank()) * block_ : 0;
    const auto result = std::span(out_).subspan(settings_.in_place ? first : 0, block_);
    return count_wrong(result, combined_values<T>(settings_.reduce, ranks_), tolerance<T>(settings_.reduce, ranks_),
                       first);
  }

 private:
  template <typename Op>
  void run_apart(Op op) {
    const std::span<const T> in(in_);
    const std::span<T> out(out_);
    if (settings_.operation == Operation::all_reduce)
      all_reduce(communicator_, in, out, op, options_);
    else if (settings_.operation == Operation::reduce)
      reduce(communicator_, in, out, op, settings_.root, options_);
    else
      reduce_scatter(communicator_, in, out, op, options_);
  }

  template <typename Op>
  void run_in_place(Op op) {
    const std::span<T> inout(out_);
    if (settings_.operation == Operation::all_reduce)
      all_reduce(communicator_, inout, op, options_);
    else if (settings_.operation == Operation::reduce)
      reduce(communicator_, inout, op, settings_.root, options_);
    else
      reduce_scatter(communicator_, inout, op, options_);
  }

  Communicator& communicator_;
  const Settings& settings_;
  Options options_;
  int ranks_;
  std::size_t block_;
  std::vector<T> in_;
  std::vector<T> out_;
};

}  // namespace

std::unique_ptr<Exercise> make_reducing(Communicator& communicator, const Settings& settings, const Shape& shape) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Reducing<T>>(communicator, settings, shape);
  });
}

}  // namespace rondo::bench
