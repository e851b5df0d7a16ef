#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <vector>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"

namespace rondo::cuda {

struct ContextState {
  int device = 0;
  int retained = 0;
};

}  // namespace rondo::cuda

namespace rondo::stand_in {
namespace {

constexpr int kMostDevices = 16;

struct Contexts {
  Contexts() {
    for (int device = 0; device < kMostDevices; ++device) primary[static_cast<std::size_t>(device)].device = device;
  }

  std::mutex mutex;
  std::array<ContextState, kMostDevices> primary;  ///< by device
};

Contexts& contexts() {
  static Contexts state;
  return state;
}

/// The contexts of this thread, the current one last; null where one was set to none.
thread_local std::vector<ContextHandle> current_contexts;

/// Of the device with this number, which there is.
ContextState& primary_of(Contexts& state, Device number) {
  return state.primary[static_cast<std::size_t>(machine().device_of(number))];
}

}  // namespace

int current_device() {
  return current_contexts.empty() || current_contexts.back() == nullptr ? -1 : current_contexts.back()->device;
}

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

int rondo_stand_in() { return 1; }

Result cuInit(unsigned flags) {
  if (const Result result = entered("cuInit"); result != Result::success) return result;
  if (flags != 0) return Result::invalid_value;
  if (machine().devices > kMostDevices) mistake(fmt::format("FAKECUDA_DEVICES: wanted {} at most", kMostDevices));
  if (machine().visible.empty()) return Result::no_device;
  set_initialised();
  return Result::success;
}

Result cuDriverGetVersion(int* version) {
  if (const Result result = entered("cuDriverGetVersion"); result != Result::success) return result;
  *version = 13000;
  return Result::success;
}

Result cuDeviceGetCount(int* count) {
  if (const Result result = entered("cuDeviceGetCount"); result != Result::success) return result;
  *count = static_cast<int>(machine().visible.size());
  return Result::success;
}

Result cuDeviceGet(Device* device, int ordinal) {
  if (const Result result = entered("cuDeviceGet"); result != Result::success) return result;
  if (!machine().sees(ordinal)) return Result::invalid_device;
  *device = ordinal;
  return Result::success;
}

Result cuDeviceGetName(char* name, int bytes, Device device) {
  if (const Result result = entered("cuDeviceGetName"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  std::snprintf(name, static_cast<std::size_t>(bytes), "stand-in device");
  return Result::success;
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  if (const Result result = entered("cuDeviceGetUuid"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  *uuid = uuid_of(machine().device_of(device));
  return Result::success;
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  if (const Result result = entered("cuDeviceGetAttribute"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  if (attribute != DeviceAttribute::multiprocessor_count) return Result::invalid_value;
  *value = 2;
  return Result::success;
}

Result cuDeviceCanAccessPeer(int* can, Device from, Device to) {
  if (const Result result = entered("cuDeviceCanAccessPeer"); result != Result::success) return result;
  if (!machine().sees(from) || !machine().sees(to)) return Result::invalid_device;
  *can = machine().reaches(machine().device_of(from), machine().device_of(to)) ? 1 : 0;
  return Result::success;
}

Result cuDeviceGetP2PAttribute(int* value, PeerAttribute attribute, Device from, Device to) {
  if (const Result result = entered("cuDeviceGetP2PAttribute"); result != Result::success) return result;
  if (!machine().sees(from) || !machine().sees(to) || from == to) return Result::invalid_device;
  if (attribute != PeerAttribute::native_atomics) return Result::invalid_value;
  *value = machine().nvlink ? 1 : 0;
  return Result::success;
}

Result cuDevicePrimaryCtxRetain(ContextHandle* context, Device device) {
  if (const Result result = entered("cuDevicePrimaryCtxRetain"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  Contexts& state = contexts();
  const std::scoped_lock lock(state.mutex);
  ContextState& primary = primary_of(state, device);
  ++primary.retained;
  *context = &primary;
  return Result::success;
}

Result cuDevicePrimaryCtxRelease_v2(Device device) {
  if (const Result result = entered("cuDevicePrimaryCtxRelease"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  Contexts& state = contexts();
  const std::scoped_lock lock(state.mutex);
  ContextState& primary = primary_of(state, device);
  if (primary.retained == 0) return Result::invalid_context;
  if (--primary.retained > 0 || !machine().strict) return Result::success;
  if (const std::string left = live(primary.device); !left.empty()) {
    mistake("cuDevicePrimaryCtxRelease: the last share is given up, and what goes with it is still used: " + left);
  }
  return Result::success;
}

Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  if (const Result result = entered("cuDevicePrimaryCtxGetState"); result != Result::success) return result;
  if (!machine().sees(device)) return Result::invalid_device;
  Contexts& state = contexts();
  const std::scoped_lock lock(state.mutex);
  *flags = 0;
  *active = primary_of(state, device).retained > 0 ? 1 : 0;
  return Result::success;
}

Result cuCtxPushCurrent_v2(ContextHandle context) {
  if (const Result result = entered("cuCtxPushCurrent"); result != Result::success) return result;
  if (context == nullptr) return Result::invalid_context;
  {
    Contexts& state = contexts();
    const std::scoped_lock lock(state.mutex);
    if (context->retained == 0) mistake("cuCtxPushCurrent: a context that nobody holds any more");
  }
  current_contexts.push_back(context);
  return Result::success;
}

Result cuCtxPopCurrent_v2(ContextHandle* context) {
  if (const Result result = entered_in_context("cuCtxPopCurrent"); result != Result::success) return result;
  *context = current_contexts.back();
  current_contexts.pop_back();
  return Result::success;
}

Result cuCtxGetCurrent(ContextHandle* context) {
  if (const Result result = entered("cuCtxGetCurrent"); result != Result::success) return result;
  *context = current_contexts.empty() ? nullptr : current_contexts.back();
  return Result::success;
}
