// rondo-bench compare's loops on Gloo over TCP. Starts its own ranks:
//   gloo_loop -n 2 --loops all_reduce:8,latency:65536 --seconds 0.1
// With --device cuda the buffers are on devices; staging.hpp tells how.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "bench/command.hpp"
#include "bench/compare/loop.hpp"
#include "bench/peers/peer.hpp"
#include "bench/peers/staging.hpp"

namespace rondo::bench {
namespace {

using GlooContext = std::shared_ptr<gloo::Context>;
using GlooFold = void (*)(void*, const void*, const void*, std::size_t);

class GlooFabric final : public Fabric {
 public:
  explicit GlooFabric(GlooContext context) : context_(std::move(context)) {}
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    options.setTag(1);
    gloo::barrier(options);
  }
  void fold(std::span<double> values, Fold how) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(how == Fold::max ? GlooFold(&gloo::max<double>) : GlooFold(&gloo::sum<double>));
    options.setTag(2);
    gloo::allreduce(options);
  }

 private:
  GlooContext context_;
};

class GlooWire {
 public:
  explicit GlooWire(GlooContext context) : context_(std::move(context)) {}

  void send(std::span<const float> data, int to) { send_window(data, to, 1); }
  void recv(std::span<float> data, int from) { recv_window(data, from, 1); }

  void send_window(std::span<const float> data, int to, int window) {
    Buffers buffers;
    for (int i = 0; i < window; ++i) {
      buffers.push_back(context_->createUnboundBuffer(const_cast<float*>(data.data()), data.size_bytes()));
      buffers.back()->send(to, kSlot);
    }
    for (auto& buffer : buffers) buffer->waitSend();
  }
  void recv_window(std::span<float> data, int from, int window) {
    Buffers buffers;
    const std::size_t count = data.size() / static_cast<std::size_t>(window);
    for (int i = 0; i < window; ++i) {
      float* const place = data.data() + static_cast<std::size_t>(i) * count;
      buffers.push_back(context_->createUnboundBuffer(place, count * sizeof(float)));
      buffers.back()->recv(from, kSlot);
    }
    for (auto& buffer : buffers) buffer->waitRecv();
  }

 private:
  using Buffers = std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>>;
  static constexpr std::uint64_t kSlot = 1U << 16;  // apart from those of the collectives' tags

  GlooContext context_;
};

/// The calls of one rank. What they need is made once: options hold the registered buffers. `in_place`: what all_reduce
/// and reduce combine is in the output.
class GlooCalls {
 public:
  GlooCalls(const GlooContext& context, const Shape& shape, Buffers<float>& buffers, bool in_place)
      : context_(context),
        in_place_(in_place),
        ranks_(static_cast<std::size_t>(context->size)),
        block_(shape.count),
        in_(const_cast<float*>(buffers.input().data()), buffers.input().size()),
        out_(buffers.output()) {}

  PeerExercise::Call of(Operation operation) const {
    switch (operation) {
      case Operation::all_reduce: return reducing<gloo::AllreduceOptions>(gloo::allreduce);
      case Operation::reduce: return reducing<gloo::ReduceOptions>(gloo::reduce);
      case Operation::broadcast: return broadcast();
      case Operation::scatter: return scatter();
      case Operation::gather: return gather();
      case Operation::all_gather: return moving<gloo::AllgatherOptions>(gloo::allgather);
      case Operation::reduce_scatter: return reduce_scatter();
      case Operation::all_to_all: return moving<gloo::AlltoallOptions>(gloo::alltoall);
      default: return barrier();
    }
  }

 private:
  template <typename Options, typename Function>
  PeerExercise::Call reducing(Function function) const {
    auto options = std::make_shared<Options>(context_);
    if (!in_place_) options->setInput(in_.data(), in_.size());
    options->setOutput(out_.data(), out_.size());
    options->setReduceFunction(GlooFold(&gloo::sum<float>));
    if constexpr (requires { options->setRoot(0); }) options->setRoot(0);
    return [options, function] { function(*options); };
  }

  template <typename Options, typename Function>
  PeerExercise::Call moving(Function function) const {
    auto options = std::make_shared<Options>(context_);
    options->setInput(in_.data(), in_.size());
    options->setOutput(out_.data(), out_.size());
    return [options, function] { function(*options); };
  }

  PeerExercise::Call broadcast() const {
    auto options = std::make_shared<gloo::BroadcastOptions>(context_);
    options->setOutput(out_.data(), out_.size());
    options->setRoot(0);
    return [options] { gloo::broadcast(*options); };
  }

  PeerExercise::Call scatter() const {
    auto options = std::make_shared<gloo::ScatterOptions>(context_);
    if (context_->rank == 0) {
      std::vector<float*> blocks;
      for (std::size_t rank = 0; rank < ranks_; ++rank) blocks.push_back(in_.data() + rank * block_);
      options->setInputs(blocks, block_);
    }
    options->setOutput(out_.data(), out_.size());
    options->setRoot(0);
    return [options] { gloo::scatter(*options); };
  }

  PeerExercise::Call gather() const {
    auto options = std::make_shared<gloo::GatherOptions>(context_);
    options->setInput(in_.data(), in_.size());
    if (context_->rank == 0) options->setOutput(out_.data(), out_.size());
    options->setRoot(0);
    return [options] { gloo::gather(*options); };
  }

  /// Gloo has it only in place, with the result at the buffer's beginning.
  PeerExercise::Call reduce_scatter() const {
    using Algorithm = gloo::ReduceScatterHalvingDoubling<float>;
    const std::vector<int> counts(ranks_, static_cast<int>(block_));
    auto algorithm =
        std::make_shared<Algorithm>(context_, std::vector<float*>{in_.data()}, static_cast<int>(in_.size()), counts);
    return [algorithm, in = in_, out = out_] {
      algorithm->run();
      std::copy_n(in.begin(), out.size(), out.begin());
    };
  }

  PeerExercise::Call barrier() const {
    auto options = std::make_shared<gloo::BarrierOptions>(context_);
    return [options] { gloo::barrier(*options); };
  }

  GlooContext context_;
  bool in_place_;
  std::size_t ranks_;
  std::size_t block_;
  std::span<float> in_;
  std::span<float> out_;
};

std::unique_ptr<Exercise> staged_exercise(const StagingDevice& device, const GlooContext& context,
                                          const GlooFabric& fabric, const Settings& settings, const Shape& shape) {
  if (facts(settings.operation).point_to_point()) {
    const auto elements = [&device](std::size_t count) { return StagedElements<float>(device, count); };
    return point_to_point_exercise<float>(StagedWire(GlooWire(context)), fabric.rank(), settings, shape, elements);
  }
  return std::make_unique<StagedExercise>(device, settings, fabric, shape, [&](Buffers<float>& buffers) {
    return GlooCalls(context, shape, buffers, true).of(settings.operation);
  });
}

/// A new folder, gone when this ends.
class MeetingPoint {
 public:
  MeetingPoint() : path_((std::filesystem::temp_directory_path() / "rondo-gloo-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;
  ~MeetingPoint() { remove(); }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run_rank(int rank, const LoopSettings& settings, const MeetingPoint& meeting_point) {
  std::optional<StagingDevice> staging;  // after the fork, which CUDA does not survive
  if (settings.device) staging.emplace(rank);
  gloo::rendezvous::FileStore store(meeting_point.path());
  gloo::transport::tcp::attr address("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(address);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, settings.ranks);
  context->connectFullMesh(store, device);

  GlooFabric fabric(context);
  fabric.barrier();
  if (rank == 0) meeting_point.remove();
  const auto exercise = [&](const Settings& of_loop, const Shape& shape) -> std::unique_ptr<Exercise> {
    if (staging) return staged_exercise(*staging, context, fabric, of_loop, shape);
    return peer_exercise(GlooWire(context), fabric, of_loop, shape, [&](Buffers<float>& buffers) {
      return GlooCalls(context, shape, buffers, false).of(of_loop.operation);
    });
  };
  const std::string library =
      staging ? "Gloo, memory of devices: copied to pinned memory of the host and back, as torch.distributed does"
              : "Gloo";
  const int status = run_loops(fabric, {"tcp", library}, settings, exercise);
  fabric.barrier();  // nobody closes a connection that another still uses
  return status;
}

void start_rank(int rank, const LoopSettings& settings, const MeetingPoint& meeting_point) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child > 0) return;
  end_with_parent();
  int status = kExitFailed;
  try {
    status = run_rank(rank, settings, meeting_point);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gloo_loop: rank {}: {}\n", rank, error.what());
  }
  _exit(status);
}

int gloo_command(const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_loop_settings("gloo_loop", arguments);
  if (settings.ranks < 1) throw UsageError("-n is missing: gloo_loop starts its own ranks");
  const MeetingPoint meeting_point;
  for (int rank = 1; rank < settings.ranks; ++rank) start_rank(rank, settings, meeting_point);
  int worst = run_rank(0, settings, meeting_point);
  int status = 0;
  while (wait(&status) > 0) worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed);
  return worst;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  return rondo::bench::run_command("gloo_loop", argc, argv, rondo::bench::gloo_command);
}
