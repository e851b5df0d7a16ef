#include <span>

#include <rondo/all_gather.hpp>
#include <rondo/all_to_all.hpp>
#include <rondo/broadcast.hpp>
#include <rondo/gather.hpp>
#include <rondo/scatter.hpp>

#include "bench/buffer_memory.hpp"
#include "bench/buffers.hpp"
#include "bench/element_dispatch.hpp"
#include "bench/exercises.hpp"

namespace rondo::bench {
namespace {

/// broadcast, scatter, gather, all_gather, all_to_all.
template <typename T>
class Moving final : public Exercise {
 public:
  Moving(Communicator& communicator, const Settings& settings, const Shape& shape)
      : communicator_(communicator),
        operation_(settings.operation),
        options_(call_options(settings)),
        root_(settings.root),
        in_place_(settings.in_place),
        memory_(communicator, settings, shape),
        buffers_(settings, communicator.rank(), communicator.size(), shape, memory_.first(), memory_.second()) {}

  void prepare(Contents contents) override {
    buffers_.prepare(contents);
    memory_.put();
  }

  void run() override {
    memory_.with(buffers_.input(), buffers_.output(), [this](auto in, auto out) { this->run_on(in, out); });
  }

  std::size_t wrong() const override {
    memory_.get();
    return buffers_.wrong();
  }

 private:
  template <typename In, typename Out>
  void run_on(In in, Out out) {
    switch (operation_) {
      case Operation::broadcast: return broadcast(communicator_, out, root_, options_);
      case Operation::scatter: return scatter(communicator_, in, out, root_, options_);
      case Operation::gather: return gather(communicator_, in, out, root_, options_);
      case Operation::all_gather:
        return in_place_ ? all_gather(communicator_, out, options_) : all_gather(communicator_, in, out, options_);
      default:
        return in_place_ ? all_to_all(communicator_, out, options_) : all_to_all(communicator_, in, out, options_);
    }
  }

  Communicator& communicator_;
  Operation operation_;
  Options options_;
  int root_;
  bool in_place_;
  BufferMemory<T> memory_;
  Buffers<T> buffers_;
};

}  // namespace

std::unique_ptr<Exercise> make_moving(Communicator& communicator, const Settings& settings, const Shape& shape) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Moving<T>>(communicator, settings, shape);
  });
}

}  // namespace rondo::bench
