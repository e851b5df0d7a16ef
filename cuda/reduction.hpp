#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cuda/context.hpp"
#include "cuda/kernels/arguments.hpp"

namespace rondo::cuda {

/// The kernels that one operator takes for one element type. Equal ones are shared, so an element may count as several
/// (`parts`): a complex number adds as two real ones.
struct Reduction {
  FunctionHandle combine = nullptr;  ///< CombineArguments
  FunctionHandle direct = nullptr;   ///< DirectArguments
  FunctionHandle divide = nullptr;   ///< DivideArguments; of `avg` only: the last pass after combining
  unsigned parts = 1;                ///< of an element: what the kernels count
  unsigned part_bytes = 0;           ///< of one
  unsigned alignment = 1;            ///< of one

  explicit operator bool() const noexcept { return direct != nullptr; }
};

/// The kernels of one context. All are fetched when it is made: fetching one later might wait for the device to drain,
/// and so for another process. Any thread may use it.
class Reductions {
 public:
  /// `image` as `kernel_image` gives it. Throws CudaError, for one where the image has nothing for this device. The
  /// context outlives it.
  Reductions(const PrimaryContext& context, std::span<const std::byte> image);
  ~Reductions();
  Reductions(const Reductions&) = delete;
  Reductions& operator=(const Reductions&) = delete;

  /// By the names of element types and operators ("bfloat16", "sum"). None where the operator does not take the type.
  Reduction find(std::string_view type, std::string_view op) const;

  // Each is queued on the stream. `count` is of elements; the pointers in the arguments are as their parts are aligned.
  // Throws CudaError.
  void combine(const Reduction& reduction, CombineArguments arguments, StreamHandle stream) const;
  void direct(const Reduction& reduction, DirectArguments arguments, StreamHandle stream) const;
  void divide(const Reduction& reduction, DivideArguments arguments, StreamHandle stream) const;
  /// By as few kernels as can be.
  void move(std::span<const Move> moves, StreamHandle stream) const;

 private:
  FunctionHandle function(const std::string& name) const;
  static unsigned blocks_for(unsigned long long bytes, unsigned most);
  template <typename Arguments>
  void launch(FunctionHandle function, unsigned blocks, unsigned long long bytes, Arguments& arguments,
              StreamHandle stream) const;
  template <typename Arguments>
  void launch(FunctionHandle function, const Reduction& reduction, Arguments& arguments, StreamHandle stream) const;

  const PrimaryContext& context_;
  unsigned most_blocks_ = 1;
  ModuleHandle module_ = nullptr;
  std::map<std::string, FunctionHandle, std::less<>> functions_;
  FunctionHandle move_ = nullptr;
};

}  // namespace rondo::cuda
