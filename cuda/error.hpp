#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "cuda/driver_types.hpp"

namespace rondo::cuda {

/// What an error says besides the call and its code, where it is known.
struct CudaFacts {
  int peer = -1;            ///< the other rank
  std::uint64_t bytes = 0;  ///< asked for, or to be moved
};

/// A function of the driver that did not succeed. `what()` is one line: the call, what it got, for whom and how much.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& call, Result code, const std::string& name, const std::string& words,
            const CudaFacts& facts);

  const std::string& call() const noexcept { return call_; }  ///< "cuMemAlloc_v2"
  Result code() const noexcept { return code_; }
  const std::string& name() const noexcept { return name_; }  ///< "CUDA_ERROR_OUT_OF_MEMORY"
  int peer() const noexcept { return facts_.peer; }
  std::uint64_t bytes() const noexcept { return facts_.bytes; }

 private:
  std::string call_;
  Result code_;
  std::string name_;
  CudaFacts facts_;
};

}  // namespace rondo::cuda
