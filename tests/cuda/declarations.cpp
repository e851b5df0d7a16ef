// Compiles when cuda/driver_types.hpp and cuda/driver.hpp say what <cuda.h> says. Sizes and kinds are compared, not
// types: what matters is that a call puts the same bytes into the same registers.

#include <type_traits>

// First: the macros of <cuda.h> would give the members other names.
#include "bench/probe/optional_calls.hpp"
#include "cuda/driver.hpp"
#include "tests/cuda/virtual_memory.hpp"
// clang-format off
#include <cuda.h>
// clang-format on

namespace {

using namespace rondo::cuda;

template <typename Ours, typename Theirs>
constexpr bool alike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
                                          std::is_class_v<Theirs>;

template <typename Ours, typename Theirs>
constexpr bool same_call = false;
template <typename... Ours, typename... Theirs>
constexpr bool same_call<Call<Ours...>, CUresult(Theirs...)> = []() {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (alike<Ours, Theirs> && ...);
  return false;
}();

// By whatever name this header has it.
using EventElapsedTime = decltype(cuEventElapsedTime);

#define SAME(member, function) static_assert(same_call<decltype(Driver::member), decltype(function)>)
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuIpcOpenMemHandle
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemGetInfo
#undef cuMemcpyDtoDAsync
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpy2DAsync
#undef cuStreamWaitValue32
#undef cuStreamWriteValue32
#undef cuMemHostRegister
#undef cuMemHostGetDevicePointer
SAME(cuInit, ::cuInit);
SAME(cuDriverGetVersion, ::cuDriverGetVersion);
SAME(cuGetErrorName, ::cuGetErrorName);
SAME(cuGetErrorString, ::cuGetErrorString);
SAME(cuDeviceGetCount, ::cuDeviceGetCount);
SAME(cuDeviceGet, ::cuDeviceGet);
SAME(cuDeviceGetName, ::cuDeviceGetName);
SAME(cuDeviceGetUuid, ::cuDeviceGetUuid_v2);
SAME(cuDeviceGetAttribute, ::cuDeviceGetAttribute);
SAME(cuDeviceCanAccessPeer, ::cuDeviceCanAccessPeer);
SAME(cuDeviceGetP2PAttribute, ::cuDeviceGetP2PAttribute);
SAME(cuDevicePrimaryCtxRetain, ::cuDevicePrimaryCtxRetain);
SAME(cuDevicePrimaryCtxRelease, ::cuDevicePrimaryCtxRelease_v2);
SAME(cuDevicePrimaryCtxGetState, ::cuDevicePrimaryCtxGetState);
SAME(cuCtxPushCurrent, ::cuCtxPushCurrent_v2);
SAME(cuCtxPopCurrent, ::cuCtxPopCurrent_v2);
SAME(cuCtxGetCurrent, ::cuCtxGetCurrent);
SAME(cuCtxGetStreamPriorityRange, ::cuCtxGetStreamPriorityRange);
SAME(cuStreamCreateWithPriority, ::cuStreamCreateWithPriority);
SAME(cuStreamDestroy, ::cuStreamDestroy_v2);
SAME(cuStreamGetFlags, ::cuStreamGetFlags);
SAME(cuStreamQuery, ::cuStreamQuery);
SAME(cuStreamSynchronize, ::cuStreamSynchronize);
SAME(cuStreamWaitEvent, ::cuStreamWaitEvent);
SAME(cuStreamIsCapturing, ::cuStreamIsCapturing);
SAME(cuThreadExchangeStreamCaptureMode, ::cuThreadExchangeStreamCaptureMode);
SAME(cuEventCreate, ::cuEventCreate);
SAME(cuEventDestroy, ::cuEventDestroy_v2);
SAME(cuEventRecord, ::cuEventRecord);
SAME(cuEventQuery, ::cuEventQuery);
static_assert(same_call<decltype(Driver::cuEventElapsedTime), EventElapsedTime>);
SAME(cuIpcGetEventHandle, ::cuIpcGetEventHandle);
SAME(cuIpcOpenEventHandle, ::cuIpcOpenEventHandle);
SAME(cuMemAlloc, ::cuMemAlloc_v2);
SAME(cuMemFree, ::cuMemFree_v2);
SAME(cuMemGetInfo, ::cuMemGetInfo_v2);
SAME(cuMemHostAlloc, ::cuMemHostAlloc);
SAME(cuMemFreeHost, ::cuMemFreeHost);
SAME(cuMemHostRegister, ::cuMemHostRegister_v2);
SAME(cuMemHostUnregister, ::cuMemHostUnregister);
SAME(cuPointerGetAttributes, ::cuPointerGetAttributes);
SAME(cuIpcGetMemHandle, ::cuIpcGetMemHandle);
SAME(cuIpcOpenMemHandle, ::cuIpcOpenMemHandle_v2);
SAME(cuIpcCloseMemHandle, ::cuIpcCloseMemHandle);
SAME(cuMemcpyDtoDAsync, ::cuMemcpyDtoDAsync_v2);
SAME(cuMemcpyHtoDAsync, ::cuMemcpyHtoDAsync_v2);
SAME(cuMemcpyDtoHAsync, ::cuMemcpyDtoHAsync_v2);
SAME(cuMemcpy2DAsync, ::cuMemcpy2DAsync_v2);
SAME(cuMemsetD8Async, ::cuMemsetD8Async);
SAME(cuModuleLoadData, ::cuModuleLoadData);
SAME(cuModuleUnload, ::cuModuleUnload);
SAME(cuModuleGetFunction, ::cuModuleGetFunction);
SAME(cuLaunchKernel, ::cuLaunchKernel);
#undef SAME

#define SAME(member, function) \
  static_assert(same_call<decltype(rondo::bench::OptionalCalls::member), decltype(function)>)
SAME(cuStreamWaitValue32, ::cuStreamWaitValue32_v2);
SAME(cuStreamWriteValue32, ::cuStreamWriteValue32_v2);
SAME(cuMemHostGetDevicePointer, ::cuMemHostGetDevicePointer_v2);
#undef SAME
static_assert(rondo::bench::kWaitGreaterOrEqual == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(rondo::bench::kWriteBehindAll == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(rondo::bench::kHostRegisterMapped == CU_MEMHOSTREGISTER_DEVICEMAP);

static_assert(std::is_same_v<Address, CUdeviceptr> && std::is_same_v<Device, CUdevice>);
static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle) && sizeof(IpcEventHandle) == sizeof(CUipcEventHandle));

constexpr bool is(Result ours, CUresult theirs) { return static_cast<unsigned>(ours) == static_cast<unsigned>(theirs); }
static_assert(is(Result::success, CUDA_SUCCESS));
static_assert(is(Result::invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(is(Result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(is(Result::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(is(Result::deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(is(Result::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(is(Result::invalid_device, CUDA_ERROR_INVALID_DEVICE));
static_assert(is(Result::invalid_image, CUDA_ERROR_INVALID_IMAGE));
static_assert(is(Result::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(is(Result::map_failed, CUDA_ERROR_MAP_FAILED));
static_assert(is(Result::already_mapped, CUDA_ERROR_ALREADY_MAPPED));
static_assert(is(Result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(is(Result::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
static_assert(is(Result::invalid_handle, CUDA_ERROR_INVALID_HANDLE));
static_assert(is(Result::not_found, CUDA_ERROR_NOT_FOUND));
static_assert(is(Result::not_ready, CUDA_ERROR_NOT_READY));
static_assert(is(Result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(is(Result::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(is(Result::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
static_assert(is(Result::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT));

constexpr bool is(PointerAttribute ours, CUpointer_attribute theirs) { return static_cast<int>(ours) == theirs; }
static_assert(is(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(is(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID));
static_assert(is(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
static_assert(is(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(is(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
static_assert(is(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR));
static_assert(is(PointerAttribute::range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
static_assert(is(PointerAttribute::memory_pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE));
static_assert(static_cast<int>(PeerAttribute::native_atomics) == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
static_assert(static_cast<int>(DeviceAttribute::multiprocessor_count) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);

constexpr bool is(CaptureStatus ours, CUstreamCaptureStatus theirs) { return static_cast<int>(ours) == theirs; }
static_assert(is(CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(is(CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(is(CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));
constexpr bool is(CaptureMode ours, CUstreamCaptureMode theirs) { return static_cast<int>(ours) == theirs; }
static_assert(is(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(is(CaptureMode::own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(is(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));

static_assert(kMemoryTypeHost == CU_MEMORYTYPE_HOST && kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(RowsCopy) == sizeof(CUDA_MEMCPY2D) && sizeof(RowsSide) == offsetof(CUDA_MEMCPY2D, dstXInBytes));
static_assert(offsetof(RowsSide, memory_type) == offsetof(CUDA_MEMCPY2D, srcMemoryType));
static_assert(offsetof(RowsSide, host) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(RowsSide, device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(RowsSide, pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(RowsCopy, row_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(RowsCopy, rows) == offsetof(CUDA_MEMCPY2D, Height));
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING && kEventInterprocess == CU_EVENT_INTERPROCESS);
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

// Of the tests.
template <typename Ours, typename Theirs>
constexpr bool same_function = false;
template <typename... Ours, typename Theirs>
constexpr bool same_function<Result(Ours...), Theirs> = same_call<Call<Ours...>, Theirs>;

using namespace rondo::testing;
static_assert(same_function<PhysicalGranularity, decltype(::cuMemGetAllocationGranularity)>);
static_assert(same_function<PhysicalCreate, decltype(::cuMemCreate)>);
static_assert(same_function<PhysicalRelease, decltype(::cuMemRelease)>);
static_assert(same_function<AddressReserve, decltype(::cuMemAddressReserve)>);
static_assert(same_function<AddressFree, decltype(::cuMemAddressFree)>);
static_assert(same_function<PhysicalMap, decltype(::cuMemMap)>);
static_assert(same_function<PhysicalUnmap, decltype(::cuMemUnmap)>);
static_assert(same_function<SetAccess, decltype(::cuMemSetAccess)>);
static_assert(sizeof(PhysicalFacts) == sizeof(CUmemAllocationProp) && sizeof(AccessFacts) == sizeof(CUmemAccessDesc));
static_assert(offsetof(PhysicalFacts, place) == offsetof(CUmemAllocationProp, location));
static_assert(PhysicalFacts{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(MemoryPlace{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(AccessFacts{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

}  // namespace
