#include "bench/probe/optional_calls.hpp"

#include <dlfcn.h>

namespace rondo::bench {

OptionalCalls::OptionalCalls(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto look_up = [&]<typename... Parameters>(cuda::Call<Parameters...>& call) {
    call.function = reinterpret_cast<cuda::Result (*)(Parameters...)>(::dlsym(handle, call.name));
    if (call.function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(call.name);
  };
  look_up(cuStreamWaitValue32);
  look_up(cuStreamWriteValue32);
  look_up(cuMemHostGetDevicePointer);
}

}  // namespace rondo::bench
