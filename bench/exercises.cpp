#include "bench/exercises.hpp"

#include <utility>
#include <vector>

#include <rondo/allocate.hpp>
#include <rondo/barrier.hpp>

#include "bench/device_elements.hpp"
#include "bench/element_dispatch.hpp"
#include "bench/point_to_point.hpp"

namespace rondo::bench {
namespace {

/// `Wire` over a communicator.
class RondoWire {
 public:
  explicit RondoWire(Communicator& communicator) : communicator_(&communicator) {}

  void send(auto data, int to) { communicator_->send(data, to); }
  void recv(auto data, int from) { communicator_->recv(data, from); }
  void send_window(auto data, int to, int window) {
    works_.clear();
    for (int i = 0; i < window; ++i) works_.push_back(communicator_->isend(data, to));
    wait_all(works_);
  }
  void recv_window(auto data, int from, int window) {
    works_.clear();
    const std::size_t count = data.size() / static_cast<std::size_t>(window);
    for (std::size_t i = 0; i < static_cast<std::size_t>(window); ++i)
      works_.push_back(communicator_->irecv(data.subspan(i * count, count), from));
    wait_all(works_);
  }

 private:
  Communicator* communicator_;
  std::vector<Work> works_;
};

class Barrier final : public Exercise {
 public:
  Barrier(Communicator& communicator, const Settings& settings)
      : communicator_(communicator), options_(call_options(settings)) {}

  void prepare(Contents) override {}
  void run() override { barrier(communicator_, options_); }
  std::size_t wrong() const override { return 0; }

 private:
  Communicator& communicator_;
  Options options_;
};

}  // namespace

Options call_options(const Settings& settings) {
  Options options;
  options.algorithm = settings.algorithm;
  options.chunk_bytes = settings.chunk_bytes;
  return options;
}

std::unique_ptr<Exercise> make_point_to_point(Communicator& communicator, const Settings& settings,
                                              const Shape& shape) {
  return with_type(settings.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Exercise> {
    const int rank = communicator.rank();
    if (settings.allocate) {
      // As much on every rank, of which each uses what it needs.
      const bool windows = settings.operation == Operation::bandwidth;
      const int messages = windows ? window_for(settings, shape.bytes) : 1;
      const auto elements = [&](std::size_t count) {
        auto memory = allocate<T>(communicator, shape.count * static_cast<std::size_t>(messages));
        return HostElements<T, SharedBuffer<T>>(std::move(memory), count);
      };
      return point_to_point_exercise<T>(RondoWire(communicator), rank, settings, shape, elements);
    }
    if (!settings.device) return point_to_point_exercise<T>(RondoWire(communicator), rank, settings, shape);
    const auto elements = [&](std::size_t count) { return DeviceElements<T>(communicator, count); };
    return point_to_point_exercise<T>(RondoWire(communicator), rank, settings, shape, elements);
  });
}

std::unique_ptr<Exercise> make_exercise(Communicator& communicator, const Settings& settings, const Shape& shape) {
  const OperationFacts& operation = facts(settings.operation);
  if (operation.point_to_point()) return make_point_to_point(communicator, settings, shape);
  if (operation.operation == Operation::barrier) return std::make_unique<Barrier>(communicator, settings);
  return operation.reduces ? make_reducing(communicator, settings, shape) : make_moving(communicator, settings, shape);
}

}  // namespace rondo::bench
