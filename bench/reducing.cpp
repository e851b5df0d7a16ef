#include <span>

#include <rondo/all_reduce.hpp>
#include <rondo/reduce.hpp>
#include <rondo/reduce_scatter.hpp>

#include "bench/buffer_memory.hpp"
#include "bench/buffers.hpp"
#include "bench/element_dispatch.hpp"
#include "bench/exercises.hpp"

namespace rondo::bench {
namespace {

/// all_reduce, reduce, reduce_scatter.
template <typename T>
class Reducing final : public Exercise {
 public:
  Reducing(Communicator& communicator, const Settings& settings, const Shape& shape)
      : communicator_(communicator),
        operation_(settings.operation),
        reduce_(settings.reduce),
        root_(settings.root),
        in_place_(settings.in_place),
        options_(call_options(settings)),
        memory_(communicator, settings, shape),
        buffers_(settings, communicator.rank(), communicator.size(), shape, memory_.first(), memory_.second()) {}

  void prepare(Contents contents) override {
    buffers_.prepare(contents);
    memory_.put();
  }

  void run() override {
    with_op(reduce_, [this]<typename Op>(Op op) {
      if constexpr (ReduceOp<Op, T>) {
        memory_.with(buffers_.input(), buffers_.output(),
                     [&](auto in, auto out) { in_place_ ? run_in_place(out, op) : run_apart(in, out, op); });
      }
    });
  }

  std::size_t wrong() const override {
    memory_.get();
    return buffers_.wrong();
  }

 private:
  template <typename In, typename Out, typename Op>
  void run_apart(In in, Out out, Op op) {
    if (operation_ == Operation::all_reduce)
      all_reduce(communicator_, in, out, op, options_);
    else if (operation_ == Operation::reduce)
      reduce(communicator_, in, out, op, root_, options_);
    else
      reduce_scatter(communicator_, in, out, op, options_);
  }

  template <typename InOut, typename Op>
  void run_in_place(InOut inout, Op op) {
    if (operation_ == Operation::all_reduce)
      all_reduce(communicator_, inout, op, options_);
    else if (operation_ == Operation::reduce)
      reduce(communicator_, inout, op, root_, options_);
    else
      reduce_scatter(communicator_, inout, op, options_);
  }

  Communicator& communicator_;
  Operation operation_;
  ReduceKind reduce_;
  int root_;
  bool in_place_;
  Options options_;
  BufferMemory<T> memory_;
  Buffers<T> buffers_;
};

}  // namespace

std::unique_ptr<Exercise> make_reducing(Communicator& communicator, const Settings& settings, const Shape& shape) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Reducing<T>>(communicator, settings, shape);
  });
}

}  // namespace rondo::bench
