#include "cuda/reduction.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "cuda/kernels/kernel_list.hpp"

namespace rondo::cuda {
namespace {

constexpr unsigned kThreads = 512;
/// With what each thread has in flight, enough for a device's memory; and the last wave of blocks is never half empty.
constexpr unsigned kBlocksPerMultiprocessor = 2;
constexpr unsigned kBytesPerThread = 64;

#define RONDO_CUDA_FOLD_NAMES(format, op) "combine_" #format "_" #op, "direct_" #format "_" #op,
#define RONDO_CUDA_DIRECT_NAME(format, op) "direct_" #format "_" #op,
#define RONDO_CUDA_DIVIDE_NAME(format, op) "divide_" #format,
constexpr const char* kKernels[] = {RONDO_CUDA_ARITHMETIC(RONDO_CUDA_FOLD_NAMES) RONDO_CUDA_ORDER(RONDO_CUDA_FOLD_NAMES)
                                        RONDO_CUDA_BITS(RONDO_CUDA_FOLD_NAMES)
                                            RONDO_CUDA_AVERAGES(RONDO_CUDA_DIRECT_NAME)
                                                RONDO_CUDA_QUOTIENTS(RONDO_CUDA_DIVIDE_NAME) "move"};

/// How an element type is combined: as `parts` of a format. Empty: not at all.
struct Format {
  std::string_view name;
  unsigned parts = 1;
  unsigned part_bytes = 1;
  unsigned alignment = part_bytes;
};

struct Type {
  std::string_view name;
  Format wrapping;  ///< sum; prod, where it is not complex
  Format product;
  Format ordered;  ///< min, max
  Format logical;  ///< land, lor
  Format divided;  ///< avg
  Format bits;     ///< band, bor, bxor
};

constexpr Type integer(std::string_view name, std::string_view format, std::string_view without_sign, unsigned bytes) {
  const Format own{format, 1, bytes};
  const Format wrapping{without_sign, 1, bytes};
  return {name, wrapping, wrapping, own, wrapping, own, {"u8", bytes, 1}};
}
constexpr Type floating(std::string_view name, std::string_view format, unsigned bytes) {
  const Format own{format, 1, bytes};
  return {name, own, own, own, {}, own, {}};
}
constexpr Type complex(std::string_view name, std::string_view format, Format part) {
  const Format parts{part.name, 2, part.part_bytes};
  return {name, parts, {format, 1, 2 * part.part_bytes, part.part_bytes}, {}, {}, parts, {}};
}

constexpr Format kByte{"u8", 1, 1};
constexpr std::array kTypes{
    Type{"bytes", {}, {}, {}, {}, {}, kByte},
    integer("int8", "i8", "u8", 1),
    integer("int16", "i16", "u16", 2),
    integer("int32", "i32", "u32", 4),
    integer("int64", "i64", "u64", 8),
    integer("uint8", "u8", "u8", 1),
    integer("uint16", "u16", "u16", 2),
    integer("uint32", "u32", "u32", 4),
    integer("uint64", "u64", "u64", 8),
    floating("half", "f16", 2),
    floating("bfloat16", "bf16", 2),
    floating("float", "f32", 4),
    floating("double", "f64", 8),
    complex("complex64", "c64", {"f32", 1, 4}),
    complex("complex128", "c128", {"f64", 1, 8}),
    Type{"bool", {}, {}, {}, kByte, {}, kByte},
};

Format format_of(const Type& type, std::string_view op) {
  if (op == "sum") return type.wrapping;
  if (op == "prod") return type.product;
  if (op == "min" || op == "max") return type.ordered;
  if (op == "land" || op == "lor") return type.logical;
  if (op == "avg") return type.divided;
  if (op == "band" || op == "bor" || op == "bxor") return type.bits;
  return {};
}

std::string kernel(std::string_view shape, std::string_view format, std::string_view op) {
  std::string name(shape);
  for (const std::string_view part : {format, op}) {
    if (!part.empty()) name.append("_").append(part);
  }
  return name;
}

}  // namespace

Reductions::Reductions(const PrimaryContext& context, std::span<const std::byte> image) : context_(context) {
  const Driver& driver = context.driver();
  const Current current(context);
  int multiprocessors = 0;
  driver.must(driver.cuDeviceGetAttribute, &multiprocessors, DeviceAttribute::multiprocessor_count, context.device());
  most_blocks_ = kBlocksPerMultiprocessor * static_cast<unsigned>(std::max(multiprocessors, 1));
  driver.must(CudaFacts{.peer = -1, .bytes = image.size()}, driver.cuModuleLoadData, &module_, image.data());
  try {
    for (const char* const name : kKernels) {
      driver.must(driver.cuModuleGetFunction, &functions_[name], module_, (std::string("rondo_") + name).c_str());
    }
  } catch (...) {
    driver.cuModuleUnload(module_);
    throw;
  }
  move_ = function("move");
}

Reductions::~Reductions() {
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  driver.cuModuleUnload(module_);
}

FunctionHandle Reductions::function(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

Reduction Reductions::find(std::string_view type, std::string_view op) const {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.name == type; });
  if (found == kTypes.end()) return {};
  const Format format = format_of(*found, op);
  if (format.name.empty()) return {};
  Reduction reduction{.parts = format.parts, .part_bytes = format.part_bytes, .alignment = format.alignment};
  reduction.direct = function(kernel("direct", format.name, op));
  if (op == "avg") {
    reduction.combine = find(type, "sum").combine;
    reduction.divide = function(kernel("divide", format.name, {}));
  } else {
    reduction.combine = function(kernel("combine", format.name, op));
  }
  return reduction;
}

unsigned Reductions::blocks_for(unsigned long long bytes, unsigned most) {
  const unsigned long long per_block = std::uint64_t{kThreads} * kBytesPerThread;
  return static_cast<unsigned>(std::clamp<unsigned long long>((bytes + per_block - 1) / per_block, 1, most));
}

template <typename Arguments>
void Reductions::launch(FunctionHandle function, unsigned blocks, unsigned long long bytes, Arguments& arguments,
                        StreamHandle stream) const {
  const Driver& driver = context_.driver();
  void* parameters[] = {&arguments};
  const Current current(context_);
  driver.must(CudaFacts{.peer = -1, .bytes = bytes}, driver.cuLaunchKernel, function, blocks, 1U, 1U, kThreads, 1U, 1U,
              0U, stream, &parameters[0], nullptr);
}

template <typename Arguments>
void Reductions::launch(FunctionHandle function, const Reduction& reduction, Arguments& arguments,
                        StreamHandle stream) const {
  if (arguments.count == 0) return;
  arguments.count *= reduction.parts;
  const unsigned long long bytes = arguments.count * reduction.part_bytes;
  launch(function, blocks_for(bytes, most_blocks_), bytes, arguments, stream);
}

void Reductions::combine(const Reduction& reduction, CombineArguments arguments, StreamHandle stream) const {
  launch(reduction.combine, reduction, arguments, stream);
}

void Reductions::direct(const Reduction& reduction, DirectArguments arguments, StreamHandle stream) const {
  launch(reduction.direct, reduction, arguments, stream);
}

void Reductions::divide(const Reduction& reduction, DivideArguments arguments, StreamHandle stream) const {
  launch(reduction.divide, reduction, arguments, stream);
}

void Reductions::move(std::span<const Move> moves, StreamHandle stream) const {
  for (; !moves.empty(); moves = moves.subspan(std::min<std::size_t>(moves.size(), kMaxMoves))) {
    MoveArguments arguments{};
    unsigned long long bytes = 0, longest = 0;
    for (const Move& move : moves.first(std::min<std::size_t>(moves.size(), kMaxMoves))) {
      arguments.moves[arguments.count++] = move;
      bytes += move.bytes;
      longest = std::max(longest, move.bytes);
    }
    arguments.groups = std::min(arguments.count, most_blocks_);
    launch(move_, arguments.groups * blocks_for(longest, most_blocks_ / arguments.groups), bytes, arguments, stream);
  }
}

}  // namespace rondo::cuda
