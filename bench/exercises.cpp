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
  /// `end`: of calls on devices.
  explicit RondoWire(Communicator& communicator, const CallEnd* end = nullptr)
      : communicator_(&communicator), end_(end) {}

  void send(auto data, int to) { communicator_->send(data, to); }
  void recv(auto data, int from) { communicator_->recv(data, from); }
  template <typename T>
  void send(device_span<T> data, int to) {
    end_->finish(end_->begin([&] { return communicator_->isend(data, to); }));
  }
  template <typename T>
  void recv(device_span<T> data, int from) {
    end_->finish(end_->begin([&] { return communicator_->irecv(data, from); }));
  }
  void send_window(auto data, int to, int window) {
    works_.clear();
    for (int i = 0; i < window; ++i) begin([&] { return communicator_->isend(data, to); });
    finish_all();
  }
  void recv_window(auto data, int from, int window) {
    works_.clear();
    const std::size_t count = data.size() / static_cast<std::size_t>(window);
    for (std::size_t i = 0; i < static_cast<std::size_t>(window); ++i)
      begin([&] { return communicator_->irecv(data.subspan(i * count, count), from); });
    finish_all();
  }

 private:
  void begin(const auto& start) { works_.push_back(end_ == nullptr ? start() : end_->begin(start)); }
  void finish_all() {
    if (end_ == nullptr) return wait_all(works_);
    for (Work& work : works_) end_->finish(std::move(work));
  }

  Communicator* communicator_;
  const CallEnd* end_;
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

/// An exercise whose calls are on devices, and end as `end` says.
class OnDevice final : public Exercise {
 public:
  OnDevice(std::unique_ptr<CallEnd> end, std::unique_ptr<Exercise> exercise)
      : end_(std::move(end)), exercise_(std::move(exercise)) {}

  void prepare(Contents contents) override { exercise_->prepare(contents); }
  void run() override { exercise_->run(); }
  double enqueue() override {
    end_->enqueuing = true;
    (void)end_->take_seconds_of_calls();
    exercise_->run();
    end_->enqueuing = false;
    return end_->take_seconds_of_calls();
  }
  void settle() override { end_->settle(); }
  std::size_t wrong() const override { return exercise_->wrong(); }
  double scale() const override { return exercise_->scale(); }

 private:
  std::unique_ptr<CallEnd> end_;
  std::unique_ptr<Exercise> exercise_;
};

std::unique_ptr<Exercise> make(Communicator& communicator, const Settings& settings, const Shape& shape,
                               const CallEnd* end) {
  const OperationFacts& operation = facts(settings.operation);
  if (operation.point_to_point()) return make_point_to_point(communicator, settings, shape, end);
  if (operation.operation == Operation::barrier) return std::make_unique<Barrier>(communicator, settings);
  return operation.reduces ? make_reducing(communicator, settings, shape, end)
                           : make_moving(communicator, settings, shape, end);
}

}  // namespace

Options call_options(const Settings& settings) {
  Options options;
  options.algorithm = settings.algorithm;
  options.chunk_bytes = settings.chunk_bytes;
  return options;
}

std::unique_ptr<Exercise> make_point_to_point(Communicator& communicator, const Settings& settings, const Shape& shape,
                                              const CallEnd* end) {
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
    const auto elements = [&](std::size_t count) { return DeviceElements<T>(communicator, count, end->stream()); };
    return point_to_point_exercise<T>(RondoWire(communicator, end), rank, settings, shape, elements);
  });
}

std::unique_ptr<Exercise> make_exercise(Communicator& communicator, const Settings& settings, const Shape& shape) {
  if (!settings.device) return make(communicator, settings, shape, nullptr);
  auto end = std::make_unique<CallEnd>(communicator, settings.default_stream);
  auto exercise = make(communicator, settings, shape, end.get());
  return std::make_unique<OnDevice>(std::move(end), std::move(exercise));
}

}  // namespace rondo::bench
