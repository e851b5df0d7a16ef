#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/kernels.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/streams.hpp"
#include "transport/descriptor.hpp"

namespace rondo::cuda {

struct FunctionState {
  rondo::stand_in::HostKernel kernel;
};

struct ModuleState {
  int device = 0;
  std::map<std::string, FunctionState, std::less<>> functions;
};

}  // namespace rondo::cuda

namespace rondo::stand_in {
namespace {

/// How what nvcc makes begins.
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

/// One kernel at a time runs on a device, of whichever process, until it ends: a lock on the file that the build has
/// made for the device, beside this library. The kernel of a system gives it back when the process dies.
class TimeSlice {
 public:
  explicit TimeSlice(int device) {
    Dl_info library{};
    ::dladdr(reinterpret_cast<const void*>(&rondo_stand_in), &library);
    const std::string path = library.dli_fname;
    const std::string file = fmt::format("{}/device-{}", path.substr(0, path.rfind('/')), device);
    file_ = detail::Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_ || ::flock(file_.get(), LOCK_EX) != 0) mistake("no time slices of a device: cannot lock " + file);
  }

 private:
  detail::Descriptor file_;
};

/// Ends the process when a kernel runs for too long: while it does, no other gets the device.
class Watchdog {
 public:
  explicit Watchdog(const std::string& kernel) : thread_([this, kernel] { watch(kernel); }) {}
  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(const std::string& kernel) {
    const std::chrono::milliseconds patience(machine().kernel_timeout_ms);
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, patience, [&] { return ended_; })) return;
    mistake(fmt::format("{} has had its device for {} ms: does it wait for another process, which cannot have it?",
                        kernel, patience.count()));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

void run(const HostKernel& kernel, const std::vector<std::byte>& arguments, unsigned long long threads) {
  for (unsigned long long thread = 0; thread < threads; ++thread) kernel.run(arguments.data(), {thread, threads});
}

void run_in_slice(const HostKernel& kernel, const std::vector<std::byte>& arguments, unsigned long long threads,
                  int device) {
  kernel.check(arguments.data(), device);
  if (!machine().time_slice) return run(kernel, arguments, threads);
  const TimeSlice slice(device);
  const Watchdog watchdog(kernel.name);
  run(kernel, arguments, threads);
}

}  // namespace
}  // namespace rondo::stand_in

using namespace rondo::stand_in;

Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  if (const Result result = entered_in_context("cuModuleLoadData"); result != Result::success) return result;
  std::uint32_t magic = 0;
  if (image != nullptr) std::memcpy(&magic, image, sizeof(magic));
  if (magic != kFatbinMagic) return Result::invalid_image;
  auto loaded = std::make_unique<ModuleState>();
  loaded->device = current_device();
  for (HostKernel& kernel : host_kernels()) {
    std::string name = kernel.name;
    loaded->functions.emplace(std::move(name), FunctionState{std::move(kernel)});
  }
  count_live(loaded->device, "module(s)", 1);
  *module = loaded.release();
  return Result::success;
}

Result cuModuleUnload(ModuleHandle module) {
  if (const Result result = entered_in_context("cuModuleUnload"); result != Result::success) return result;
  count_live(module->device, "module(s)", -1);
  delete module;
  return Result::success;
}

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (const Result result = entered_in_context("cuModuleGetFunction"); result != Result::success) return result;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return Result::not_found;
  *function = &found->second;
  return Result::success;
}

Result cuLaunchKernel(FunctionHandle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                      unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned, StreamHandle handle,
                      void** parameters, void**) {
  if (const Result result = entered_in_context("cuLaunchKernel"); result != Result::success) return result;
  const unsigned long long threads = 1ULL * blocks_x * blocks_y * blocks_z * threads_x * threads_y * threads_z;
  constexpr unsigned kMostThreadsOfABlock = 1024;
  if (threads == 0 || threads_x * threads_y * threads_z > kMostThreadsOfABlock) return Result::invalid_value;
  StreamState& stream = stream_of(handle);
  if (stream.device != current_device()) return Result::invalid_handle;
  const auto* const begin = static_cast<const std::byte*>(parameters[0]);
  std::vector<std::byte> arguments(begin, begin + function->kernel.argument_bytes);
  stream.queue([kernel = function->kernel, arguments = std::move(arguments), threads, device = stream.device] {
    run_in_slice(kernel, arguments, threads, device);
  });
  return Result::success;
}

Result cuLaunchHostFunc(StreamHandle stream, void (*function)(void*), void* argument) {
  if (const Result result = entered("cuLaunchHostFunc"); result != Result::success) return result;
  stream_of(stream).queue([=] { function(argument); });
  return Result::success;
}
