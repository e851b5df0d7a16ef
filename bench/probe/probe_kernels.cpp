#include "bench/probe/probe_kernels.hpp"

namespace rondo::bench {

ProbeKernels::ProbeKernels(const Part& part) : part_(part) {
  part.driver().must(part.driver().cuModuleLoadData, &module_, probe_kernel_image().data());
}

ProbeKernels::~ProbeKernels() { part_.driver().cuModuleUnload(module_); }

cuda::FunctionHandle ProbeKernels::find(const char* name) const {
  cuda::FunctionHandle function = nullptr;
  part_.driver().must(part_.driver().cuModuleGetFunction, &function, module_, name);
  return function;
}

}  // namespace rondo::bench
