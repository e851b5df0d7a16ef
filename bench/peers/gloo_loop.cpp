// rondo-bench's measurements on Gloo over TCP, for comparison. Starts its own ranks:
//   gloo_loop all_reduce -n 2 --sizes 8,64K,16M

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "bench/command.hpp"
#include "bench/peers/peer.hpp"
#include "bench/report.hpp"

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

int run_rank(int rank, const Settings& settings, const std::string& meeting_point) {
  gloo::rendezvous::FileStore store(meeting_point);
  gloo::transport::tcp::attr address("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(address);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, *settings.ranks);
  context->connectFullMesh(store, device);

  GlooFabric fabric(context);
  const auto sum_call = [context](std::span<float> in, std::span<float> out) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context);
    options->setInput(in.data(), in.size());
    options->setOutput(out.data(), out.size());
    options->setReduceFunction(GlooFold(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  };
  const int status =
      run_subject(fabric, peer_subject("Gloo", "tcp", GlooWire(context), fabric, settings, sum_call), settings);
  fabric.barrier();  // nobody closes a connection that another still uses
  return status;
}

/// A new folder, gone when this ends.
class MeetingPoint {
 public:
  MeetingPoint() : path_((std::filesystem::temp_directory_path() / "rondo-gloo-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;
  ~MeetingPoint() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void start_rank(int rank, const Settings& settings, const std::string& meeting_point) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = kExitFailed;
  try {
    status = run_rank(rank, settings, meeting_point);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gloo_loop: rank {}: {}\n", rank, error.what());
  }
  _exit(status);
}

int gloo_command(const std::vector<std::string>& arguments) {
  const Settings settings = parse_settings(arguments);
  check_peer_settings(settings, "Gloo");
  if (!settings.ranks) throw UsageError("-n is missing: gloo_loop starts its own ranks");
  const MeetingPoint meeting_point;
  for (int rank = 1; rank < *settings.ranks; ++rank) start_rank(rank, settings, meeting_point.path());
  int worst = run_rank(0, settings, meeting_point.path());
  int status = 0;
  while (wait(&status) > 0) worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed);
  return worst;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  return rondo::bench::run_command("gloo_loop", argc, argv, rondo::bench::gloo_command);
}
