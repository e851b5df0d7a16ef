#pragma once

#include <cstddef>
#include <span>

#include "bench/probe/part.hpp"

namespace rondo::bench {

/// The probe's own kernels as nvcc compiled them; empty where rondo was built without nvcc.
std::span<const std::byte> probe_kernel_image() noexcept;

/// A module of them.
class ProbeKernels {
 public:
  explicit ProbeKernels(const Part& part);
  ~ProbeKernels();
  ProbeKernels(const ProbeKernels&) = delete;
  ProbeKernels& operator=(const ProbeKernels&) = delete;

  cuda::FunctionHandle find(const char* name) const;

 private:
  const Part& part_;
  cuda::ModuleHandle module_ = nullptr;
};

}  // namespace rondo::bench
