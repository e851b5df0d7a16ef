#include "tests/cuda/stand_in/entry_points.hpp"

namespace rondo::stand_in {
namespace {

using cuda::Result;

struct Entry {
  Result code;
  const char* name;
  const char* words;
};

constexpr Entry kErrors[] = {
    {Result::success, "CUDA_SUCCESS", "no error"},
    {Result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {Result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Result::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {Result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::map_failed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {Result::already_mapped, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {Result::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the device"},
    {Result::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {Result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Result::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {Result::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Result::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {Result::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {Result::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {Result::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

const Entry* find(Result code) {
  for (const Entry& entry : kErrors) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace
}  // namespace rondo::stand_in

using namespace rondo::cuda;

Result cuGetErrorName(Result code, const char** name) {
  const auto* const entry = rondo::stand_in::find(code);
  *name = entry == nullptr ? nullptr : entry->name;
  return entry == nullptr ? Result::invalid_value : Result::success;
}

Result cuGetErrorString(Result code, const char** words) {
  const auto* const entry = rondo::stand_in::find(code);
  *words = entry == nullptr ? nullptr : entry->words;
  return entry == nullptr ? Result::invalid_value : Result::success;
}
