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
  Moving(Communicator& communicator, const Settings& settings, const Shape& shape, const CallEnd* end)
      : communicator_(communicator),
        end_(end),
        operation_(settings.operation),
        options_(call_options(settings)),
        root_(settings.root),
        in_place_(settings.in_place),
        memory_(communicator, settings, shape, end),
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
  void run_on(std::span<const T> in, std::span<T> out) {
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

  void run_on(device_span<const T> in, device_span<T> out) {
    end_->finish(end_->begin([&] { return start_on(in, out); }));
  }

  Work start_on(device_span<const T> in, device_span<T> out) {
    switch (operation_) {
      case Operation::broadcast: return ibroadcast(communicator_, out, root_, options_);
      case Operation::scatter: return iscatter(communicator_, in, out, root_, options_);
      case Operation::gather: return igather(communicator_, in, out, root_, options_);
      case Operation::all_gather:
        return in_place_ ? iall_gather(communicator_, out, options_) : iall_gather(communicator_, in, out, options_);
      default:
        return in_place_ ? iall_to_all(communicator_, out, options_) : iall_to_all(communicator_, in, out, options_);
    }
  }

  Communicator& communicator_;
  const CallEnd* end_;
  Operation operation_;
  Options options_;
  int root_;
  bool in_place_;
  BufferMemory<T> memory_;
  Buffers<T> buffers_;
};

}  // namespace

std::unique_ptr<Exercise> make_moving(Communicator& communicator, const Settings& settings, const Shape& shape,
                                      const CallEnd* end) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    return std::make_unique<Moving<T>>(communicator, settings, shape, end);
  });
}

}  // namespace rondo::bench
