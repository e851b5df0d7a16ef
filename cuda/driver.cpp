#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include <fmt/format.h>

namespace rondo::cuda {
namespace {

constexpr std::size_t count_calls() {
  std::size_t count = 0;
  Driver().for_each_call([&](const auto&) { ++count; });
  return count;
}
static_assert(sizeof(Driver) == count_calls() * sizeof(decltype(Driver::cuInit)),
              "Driver::for_each_call leaves one out");

/// Fills the table; returns the names of what the library lacks.
std::string look_up(void* library, Driver& driver) {
  std::string missing;
  driver.for_each_call([&]<typename... Parameters>(Call<Parameters...>& call) {
    call.function = reinterpret_cast<Result (*)(Parameters...)>(::dlsym(library, call.name));
    if (call.function == nullptr) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", call.name);
  });
  return missing;
}

/// What went wrong, or nothing.
std::string initialise(const Driver& driver) {
  int devices = 0;
  try {
    driver.must(driver.cuInit, 0U);
    driver.must(driver.cuDeviceGetCount, &devices);
  } catch (const CudaError& error) {
    return error.what();
  }
  return devices > 0 ? "" : "cuDeviceGetCount: got no device, wanted one or more";
}

}  // namespace

std::string Driver::version() const {
  int version = 0;
  if (cuDriverGetVersion(&version) != Result::success) return "CUDA ?";
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

void Driver::fail(const char* call, Result result, const CudaFacts& facts) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (cuGetErrorName(result, &name) != Result::success || name == nullptr) name = "unknown error";
  if (cuGetErrorString(result, &words) != Result::success || words == nullptr) words = "";
  throw CudaError(call, result, name, words, facts);
}

DriverSearch load_driver(const std::string& library) {
  DriverSearch search{.library = library, .driver = {}, .reason = {}};
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    search.reason = ::dlerror();
    return search;
  }
  Driver found;
  if (const std::string missing = look_up(handle, found); !missing.empty()) {
    search.reason = fmt::format("{}: no driver that rondo can use: it lacks {}", library, missing);
    ::dlclose(handle);
    return search;
  }
  search.reason = initialise(found);
  if (search.reason.empty()) search.driver = found;
  return search;
}

const DriverSearch& driver() {
  static const DriverSearch search = [] {
    const char* const named = std::getenv("RONDO_CUDA_LIBRARY");
    return load_driver(named != nullptr && *named != '\0' ? named : "libcuda.so.1");
  }();
  return search;
}

}  // namespace rondo::cuda
