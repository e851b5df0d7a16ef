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
  Reducing(Communicator& communicator, const Settings& settings, const Shape& shape, const CallEnd* end)
      : communicator_(communicator),
        end_(end),
        operation_(settings.operation),
        reduce_(settings.reduce),
        root_(settings.root),
        in_place_(settings.in_place),
        options_(call_options(settings)),
        memory_(communicator, settings, shape, end),
        buffers_(settings, communicator.rank(), communicator.size(), shape, memory_.first(), memory_.second()) {}

  void prepare(Contents contents) override {
    buffers_.prepare(contents);
    memory_.put();
  }

  void run() override {
    with_op(reduce_, [this]<typename Op>(Op op) {
      if constexpr (ReduceOp<Op, T>) {
        memory_.with(buffers_.input(), buffers_.output(), [&](auto in, auto out) { this->run_on(in, out, op); });
      }
    });
  }

  std::size_t wrong() const override {
    memory_.get();
    return buffers_.wrong();
  }

 private:
  template <typename Op>
  void run_on(std::span<const T> in, std::span<T> out, Op op) {
    switch (operation_) {
      case Operation::all_reduce:
        return in_place_ ? all_reduce(communicator_, out, op, options_)
                         : all_reduce(communicator_, in, out, op, options_);
      case Operation::reduce:
        return in_place_ ? reduce(communicator_, out, op, root_, options_)
                         : reduce(communicator_, in, out, op, root_, options_);
      default:
        return in_place_ ? reduce_scatter(communicator_, out, op, options_)
                         : reduce_scatter(communicator_, in, out, op, options_);
    }
  }

  template <typename Op>
  void run_on(device_span<const T> in, device_span<T> out, Op op) {
    end_->finish(end_->begin([&] { return start_on(in, out, op); }));
  }

  template <typename Op>
  Work start_on(device_span<const T> in, device_span<T> out, Op op) {
    switch (operation_) {
      case Operation::all_reduce:
        return in_place_ ? iall_reduce(communicator_, out, op, options_)
                         : iall_reduce(communicator_, in, out, op, options_);
      case Operation::reduce:
        return in_place_ ? ireduce(communicator_, out, op, root_, options_)
                         : ireduce(communicator_, in, out, op, root_, options_);
      default:
        return in_place_ ? ireduce_scatter(communicator_, out, op, options_)
                         : ireduce_scatter(communicator_, in, out, op, options_);
    }
  }

  Communicator& communicator_;
  const CallEnd* end_;
  Operation operation_;
  ReduceKind reduce_;
  int root_;
  bool in_place_;
  Options options_;
  BufferMemory<T> memory_;
  Buffers<T> buffers_;
};

}  // namespace

std::unique_ptr<Exercise> make_reducing(Communicator& communicator, const Settings& settings, const Shape& shape,
                                        const CallEnd* end) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Reducing<T>>(communicator, settings, shape, end);
  });
}

}  // namespace rondo::bench
