// Captures of streams into graphs, which are empty here: nothing that tests do may become part of one.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

struct Capture {
  std::thread::id thread;
  CaptureMode mode;
  bool is_whole = true;
};

struct Captures {
  std::mutex mutex;
  std::map<StreamHandle, Capture> all;
  std::atomic<int> number{0};  ///< for who asks at each call, and must not order threads by it
};

Captures& captures() {
  static auto* const state = new Captures;
  return *state;
}

thread_local CaptureMode mode_of_thread = CaptureMode::global;

/// They allocate, or ask or wait for what a graph would do later.
constexpr std::string_view kNotInGraphs[] = {
    "cuStreamQuery",       "cuStreamSynchronize", "cuEventQuery",      "cuMemAlloc",          "cuMemFree",
    "cuMemHostAlloc",      "cuMemFreeHost",       "cuMemHostRegister", "cuMemHostUnregister", "cuIpcOpenMemHandle",
    "cuIpcCloseMemHandle", "cuModuleLoadData",    "cuModuleUnload"};

bool minds(const Capture& capture) {
  if (mode_of_thread == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != CaptureMode::relaxed;
  return mode_of_thread == CaptureMode::global && capture.mode == CaptureMode::global;
}

}  // namespace

Result minding_captures(const char* call) {
  Captures& state = captures();
  if (state.number.load(std::memory_order_relaxed) == 0) return Result::success;
  if (std::find(std::begin(kNotInGraphs), std::end(kNotInGraphs), call) == std::end(kNotInGraphs))
    return Result::success;
  const std::scoped_lock lock(state.mutex);
  Result result = Result::success;
  for (auto& [stream, capture] : state.all) {
    if (!minds(capture)) continue;
    capture.is_whole = false;
    result = Result::capture_unsupported;
  }
  return result;
}

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  if (const Result result = entered("cuThreadExchangeStreamCaptureMode"); result != Result::success) return result;
  std::swap(*mode, mode_of_thread);
  return Result::success;
}

Result cuStreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  if (const Result result = entered_in_context("cuStreamIsCapturing"); result != Result::success) return result;
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= kDefaultOfAll;
  if (is_default && captures_for_default(current_device())) return Result::capture_implicit;
  *status = stream_of(stream).capturing() ? CaptureStatus::active : CaptureStatus::none;
  return Result::success;
}

Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  if (const Result result = entered("cuStreamBeginCapture"); result != Result::success) return result;
  if (stream == nullptr || !stream_of(stream).capture(true)) return Result::invalid_value;
  Captures& state = captures();
  const std::scoped_lock lock(state.mutex);
  state.all[stream] = {std::this_thread::get_id(), static_cast<CaptureMode>(mode)};
  ++state.number;
  return Result::success;
}

Result cuStreamEndCapture(StreamHandle handle, void** graph) {
  if (const Result result = entered("cuStreamEndCapture"); result != Result::success) return result;
  StreamState& stream = stream_of(handle);
  if (!stream.capture(false)) return Result::invalid_value;
  Captures& state = captures();
  const std::scoped_lock lock(state.mutex);
  *graph = nullptr;
  --state.number;
  if (!state.all.extract(handle).mapped().is_whole) return Result::capture_invalidated;
  *graph = new int(stream.device);
  count_live(stream.device, "graph(s)", 1);
  return Result::success;
}

Result cuGraphDestroy(void* graph) {
  if (const Result result = entered("cuGraphDestroy"); result != Result::success) return result;
  const std::unique_ptr<int> device(static_cast<int*>(graph));
  count_live(*device, "graph(s)", -1);
  return Result::success;
}
