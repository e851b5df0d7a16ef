#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cuda/driver_types.hpp"
#include "cuda/error.hpp"

namespace rondo::cuda {

/// One function of the driver library, under the versioned name that it is looked up by.
template <typename... Parameters>
struct Call {
  using Function = Result(Parameters...);

  const char* name;
  Function* function = nullptr;

  Result operator()(Parameters... arguments) const { return function(arguments...); }
};

/// The functions of the CUDA driver that rondo uses, found at run time: rondo is linked with nothing of CUDA, so one
/// binary runs with and without a GPU. Members have the names of the driver API, without their versions.
///
/// A Driver is a table of functions: it may be copied, and used by any thread. What it names stays loaded until the
/// process ends.
struct Driver {
  Call<unsigned> cuInit{"cuInit"};
  Call<int*> cuDriverGetVersion{"cuDriverGetVersion"};
  Call<Result, const char**> cuGetErrorName{"cuGetErrorName"};
  Call<Result, const char**> cuGetErrorString{"cuGetErrorString"};

  Call<int*> cuDeviceGetCount{"cuDeviceGetCount"};
  Call<Device*, int> cuDeviceGet{"cuDeviceGet"};
  Call<char*, int, Device> cuDeviceGetName{"cuDeviceGetName"};
  Call<Uuid*, Device> cuDeviceGetUuid{"cuDeviceGetUuid_v2"};
  Call<int*, DeviceAttribute, Device> cuDeviceGetAttribute{"cuDeviceGetAttribute"};
  Call<int*, Device, Device> cuDeviceCanAccessPeer{"cuDeviceCanAccessPeer"};
  Call<int*, PeerAttribute, Device, Device> cuDeviceGetP2PAttribute{"cuDeviceGetP2PAttribute"};

  Call<ContextHandle*, Device> cuDevicePrimaryCtxRetain{"cuDevicePrimaryCtxRetain"};
  Call<Device> cuDevicePrimaryCtxRelease{"cuDevicePrimaryCtxRelease_v2"};
  Call<Device, unsigned*, int*> cuDevicePrimaryCtxGetState{"cuDevicePrimaryCtxGetState"};
  Call<ContextHandle> cuCtxPushCurrent{"cuCtxPushCurrent_v2"};
  Call<ContextHandle*> cuCtxPopCurrent{"cuCtxPopCurrent_v2"};
  Call<ContextHandle*> cuCtxGetCurrent{"cuCtxGetCurrent"};
  Call<int*, int*> cuCtxGetStreamPriorityRange{"cuCtxGetStreamPriorityRange"};

  Call<StreamHandle*, unsigned, int> cuStreamCreateWithPriority{"cuStreamCreateWithPriority"};
  Call<StreamHandle> cuStreamDestroy{"cuStreamDestroy_v2"};
  Call<StreamHandle, unsigned*> cuStreamGetFlags{"cuStreamGetFlags"};
  Call<StreamHandle> cuStreamQuery{"cuStreamQuery"};
  Call<StreamHandle> cuStreamSynchronize{"cuStreamSynchronize"};
  Call<StreamHandle, EventHandle, unsigned> cuStreamWaitEvent{"cuStreamWaitEvent"};
  Call<StreamHandle, CaptureStatus*> cuStreamIsCapturing{"cuStreamIsCapturing"};
  Call<CaptureMode*> cuThreadExchangeStreamCaptureMode{"cuThreadExchangeStreamCaptureMode"};

  Call<EventHandle*, unsigned> cuEventCreate{"cuEventCreate"};
  Call<EventHandle> cuEventDestroy{"cuEventDestroy_v2"};
  Call<EventHandle, StreamHandle> cuEventRecord{"cuEventRecord"};
  Call<EventHandle> cuEventQuery{"cuEventQuery"};
  Call<float*, EventHandle, EventHandle> cuEventElapsedTime{"cuEventElapsedTime"};
  Call<IpcEventHandle*, EventHandle> cuIpcGetEventHandle{"cuIpcGetEventHandle"};
  Call<EventHandle*, IpcEventHandle> cuIpcOpenEventHandle{"cuIpcOpenEventHandle"};

  Call<Address*, std::size_t> cuMemAlloc{"cuMemAlloc_v2"};
  Call<Address> cuMemFree{"cuMemFree_v2"};
  Call<std::size_t*, std::size_t*> cuMemGetInfo{"cuMemGetInfo_v2"};
  Call<void**, std::size_t, unsigned> cuMemHostAlloc{"cuMemHostAlloc"};
  Call<void*> cuMemFreeHost{"cuMemFreeHost"};
  Call<void*, std::size_t, unsigned> cuMemHostRegister{"cuMemHostRegister_v2"};
  Call<void*> cuMemHostUnregister{"cuMemHostUnregister"};
  Call<unsigned, PointerAttribute*, void**, Address> cuPointerGetAttributes{"cuPointerGetAttributes"};
  Call<IpcMemoryHandle*, Address> cuIpcGetMemHandle{"cuIpcGetMemHandle"};
  Call<Address*, IpcMemoryHandle, unsigned> cuIpcOpenMemHandle{"cuIpcOpenMemHandle_v2"};
  Call<Address> cuIpcCloseMemHandle{"cuIpcCloseMemHandle"};

  Call<Address, Address, std::size_t, StreamHandle> cuMemcpyDtoDAsync{"cuMemcpyDtoDAsync_v2"};
  Call<Address, const void*, std::size_t, StreamHandle> cuMemcpyHtoDAsync{"cuMemcpyHtoDAsync_v2"};
  Call<void*, Address, std::size_t, StreamHandle> cuMemcpyDtoHAsync{"cuMemcpyDtoHAsync_v2"};
  Call<const RowsCopy*, StreamHandle> cuMemcpy2DAsync{"cuMemcpy2DAsync_v2"};
  Call<Address, unsigned char, std::size_t, StreamHandle> cuMemsetD8Async{"cuMemsetD8Async"};

  Call<ModuleHandle*, const void*> cuModuleLoadData{"cuModuleLoadData"};
  Call<ModuleHandle> cuModuleUnload{"cuModuleUnload"};
  Call<FunctionHandle*, ModuleHandle, const char*> cuModuleGetFunction{"cuModuleGetFunction"};
  Call<FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**,
       void**>
      cuLaunchKernel{"cuLaunchKernel"};

  /// Calls `action` with each of them, in order.
  template <typename Action>
  constexpr void for_each_call(Action action) {
    const auto with = [&](auto&... calls) { (action(calls), ...); };
    with(cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString, cuDeviceGetCount, cuDeviceGet, cuDeviceGetName,
         cuDeviceGetUuid, cuDeviceGetAttribute, cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute,
         cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxGetState, cuCtxPushCurrent,
         cuCtxPopCurrent, cuCtxGetCurrent, cuCtxGetStreamPriorityRange, cuStreamCreateWithPriority, cuStreamDestroy,
         cuStreamGetFlags, cuStreamQuery, cuStreamSynchronize, cuStreamWaitEvent, cuStreamIsCapturing,
         cuThreadExchangeStreamCaptureMode, cuEventCreate, cuEventDestroy, cuEventRecord, cuEventQuery,
         cuEventElapsedTime, cuIpcGetEventHandle, cuIpcOpenEventHandle, cuMemAlloc, cuMemFree, cuMemGetInfo,
         cuMemHostAlloc, cuMemFreeHost, cuMemHostRegister, cuMemHostUnregister, cuPointerGetAttributes,
         cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle, cuMemcpyDtoDAsync, cuMemcpyHtoDAsync,
         cuMemcpyDtoHAsync, cuMemcpy2DAsync, cuMemsetD8Async, cuModuleLoadData, cuModuleUnload, cuModuleGetFunction,
         cuLaunchKernel);
  }

  /// Calls one of the functions above; throws CudaError unless it succeeds.
  template <typename... Parameters, typename... Arguments>
  void must(const Call<Parameters...>& call, Arguments... arguments) const {
    must(CudaFacts{}, call, arguments...);
  }
  /// The same, with what the error is to say besides.
  template <typename... Parameters, typename... Arguments>
  void must(const CudaFacts& facts, const Call<Parameters...>& call, Arguments... arguments) const {
    const Result result = call(arguments...);
    if (result != Result::success) fail(call.name, result, facts);
  }

  /// "CUDA 13.0": what it was made for, and knows the kernels of; "CUDA ?" where it does not tell.
  std::string version() const;

  [[noreturn]] void fail(const char* call, Result result, const CudaFacts& facts = {}) const;
};

/// What came of looking for the driver.
struct DriverSearch {
  std::string library;           ///< what was looked for
  std::optional<Driver> driver;  ///< initialised (cuInit), with at least one device
  std::string reason;            ///< why there is none; empty when there is
};

/// Loads `library` by the rules of dlopen, looks up all functions and initialises the driver. Never throws for what is
/// missing: most machines have no GPU.
DriverSearch load_driver(const std::string& library);

/// The driver of this process: of the library that RONDO_CUDA_LIBRARY names, else libcuda.so.1. Loaded by the first
/// call, by whichever thread. CUDA does not survive a fork: to be called in the process that uses it only.
const DriverSearch& driver();

}  // namespace rondo::cuda
