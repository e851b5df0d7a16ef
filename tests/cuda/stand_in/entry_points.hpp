#pragma once

#include "bench/probe/optional_calls.hpp"
#include "cuda/driver.hpp"
#include "tests/cuda/virtual_memory.hpp"

// The functions that the stand-in defines, declared with the very types that rondo calls them by: a definition that
// differs does not compile.

#define RONDO_ENTRY(member, symbol) \
  extern "C" [[gnu::visibility("default")]] decltype(rondo::cuda::Driver::member)::Function symbol

RONDO_ENTRY(cuInit, cuInit);
RONDO_ENTRY(cuDriverGetVersion, cuDriverGetVersion);
RONDO_ENTRY(cuGetErrorName, cuGetErrorName);
RONDO_ENTRY(cuGetErrorString, cuGetErrorString);
RONDO_ENTRY(cuDeviceGetCount, cuDeviceGetCount);
RONDO_ENTRY(cuDeviceGet, cuDeviceGet);
RONDO_ENTRY(cuDeviceGetName, cuDeviceGetName);
RONDO_ENTRY(cuDeviceGetUuid, cuDeviceGetUuid_v2);
RONDO_ENTRY(cuDeviceGetAttribute, cuDeviceGetAttribute);
RONDO_ENTRY(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer);
RONDO_ENTRY(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute);
RONDO_ENTRY(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
RONDO_ENTRY(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
RONDO_ENTRY(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState);
RONDO_ENTRY(cuCtxPushCurrent, cuCtxPushCurrent_v2);
RONDO_ENTRY(cuCtxPopCurrent, cuCtxPopCurrent_v2);
RONDO_ENTRY(cuCtxGetCurrent, cuCtxGetCurrent);
RONDO_ENTRY(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange);
RONDO_ENTRY(cuStreamCreateWithPriority, cuStreamCreateWithPriority);
RONDO_ENTRY(cuStreamDestroy, cuStreamDestroy_v2);
RONDO_ENTRY(cuStreamGetFlags, cuStreamGetFlags);
RONDO_ENTRY(cuStreamQuery, cuStreamQuery);
RONDO_ENTRY(cuStreamSynchronize, cuStreamSynchronize);
RONDO_ENTRY(cuStreamWaitEvent, cuStreamWaitEvent);
RONDO_ENTRY(cuStreamIsCapturing, cuStreamIsCapturing);
RONDO_ENTRY(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode);
RONDO_ENTRY(cuEventCreate, cuEventCreate);
RONDO_ENTRY(cuEventDestroy, cuEventDestroy_v2);
RONDO_ENTRY(cuEventRecord, cuEventRecord);
RONDO_ENTRY(cuEventQuery, cuEventQuery);
RONDO_ENTRY(cuEventElapsedTime, cuEventElapsedTime);
RONDO_ENTRY(cuIpcGetEventHandle, cuIpcGetEventHandle);
RONDO_ENTRY(cuIpcOpenEventHandle, cuIpcOpenEventHandle);
RONDO_ENTRY(cuMemAlloc, cuMemAlloc_v2);
RONDO_ENTRY(cuMemFree, cuMemFree_v2);
RONDO_ENTRY(cuMemGetInfo, cuMemGetInfo_v2);
RONDO_ENTRY(cuMemHostAlloc, cuMemHostAlloc);
RONDO_ENTRY(cuMemFreeHost, cuMemFreeHost);
RONDO_ENTRY(cuMemHostRegister, cuMemHostRegister_v2);
RONDO_ENTRY(cuMemHostUnregister, cuMemHostUnregister);
RONDO_ENTRY(cuPointerGetAttributes, cuPointerGetAttributes);
RONDO_ENTRY(cuIpcGetMemHandle, cuIpcGetMemHandle);
RONDO_ENTRY(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);
RONDO_ENTRY(cuIpcCloseMemHandle, cuIpcCloseMemHandle);
RONDO_ENTRY(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
RONDO_ENTRY(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
RONDO_ENTRY(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
RONDO_ENTRY(cuMemcpy2DAsync, cuMemcpy2DAsync_v2);
RONDO_ENTRY(cuMemsetD8Async, cuMemsetD8Async);
RONDO_ENTRY(cuModuleLoadData, cuModuleLoadData);
RONDO_ENTRY(cuModuleUnload, cuModuleUnload);
RONDO_ENTRY(cuModuleGetFunction, cuModuleGetFunction);
RONDO_ENTRY(cuLaunchKernel, cuLaunchKernel);

#undef RONDO_ENTRY
// What the probe asks for besides.
#define RONDO_ENTRY(member, symbol) \
  extern "C" [[gnu::visibility("default")]] decltype(rondo::bench::OptionalCalls::member)::Function symbol

RONDO_ENTRY(cuStreamWaitValue32, cuStreamWaitValue32_v2);
RONDO_ENTRY(cuStreamWriteValue32, cuStreamWriteValue32_v2);
RONDO_ENTRY(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2);

// What tests need of the driver and rondo does not.
extern "C" {
[[gnu::visibility("default")]] rondo::cuda::Result cuMemAllocAsync(rondo::cuda::Address* address, std::size_t bytes,
                                                                   rondo::cuda::StreamHandle stream);
[[gnu::visibility("default")]] rondo::cuda::Result cuMemFreeAsync(rondo::cuda::Address address,
                                                                  rondo::cuda::StreamHandle stream);
[[gnu::visibility("default")]] rondo::cuda::Result cuMemAllocManaged(rondo::cuda::Address* address, std::size_t bytes,
                                                                     unsigned flags);
[[gnu::visibility("default")]] rondo::testing::PhysicalGranularity cuMemGetAllocationGranularity;
[[gnu::visibility("default")]] rondo::testing::PhysicalCreate cuMemCreate;
[[gnu::visibility("default")]] rondo::testing::PhysicalRelease cuMemRelease;
[[gnu::visibility("default")]] rondo::testing::AddressReserve cuMemAddressReserve;
[[gnu::visibility("default")]] rondo::testing::AddressFree cuMemAddressFree;
[[gnu::visibility("default")]] rondo::testing::PhysicalMap cuMemMap;
[[gnu::visibility("default")]] rondo::testing::PhysicalUnmap cuMemUnmap;
[[gnu::visibility("default")]] rondo::testing::SetAccess cuMemSetAccess;
[[gnu::visibility("default")]] rondo::cuda::Result cuLaunchHostFunc(rondo::cuda::StreamHandle stream,
                                                                    void (*function)(void*), void* argument);
[[gnu::visibility("default")]] rondo::cuda::Result cuStreamBeginCapture_v2(rondo::cuda::StreamHandle stream, int mode);
[[gnu::visibility("default")]] rondo::cuda::Result cuStreamEndCapture(rondo::cuda::StreamHandle stream, void** graph);
[[gnu::visibility("default")]] rondo::cuda::Result cuGraphDestroy(void* graph);

/// Only the stand-in has it: so a test knows that it runs on no device.
[[gnu::visibility("default")]] int rondo_stand_in();
/// How many copies the streams of this process are at.
[[gnu::visibility("default")]] int rondo_stand_in_copies();
/// How many bytes have been copied from devices to the host.
[[gnu::visibility("default")]] std::size_t rondo_stand_in_copied_to_host();
/// How many times this process has mapped memory of others.
[[gnu::visibility("default")]] std::size_t rondo_stand_in_mapped();
/// The most bytes of the host that this process has had allocated at a time, and how many it has registered.
[[gnu::visibility("default")]] std::size_t rondo_stand_in_most_pinned();
[[gnu::visibility("default")]] std::size_t rondo_stand_in_registered();
}

#undef RONDO_ENTRY
