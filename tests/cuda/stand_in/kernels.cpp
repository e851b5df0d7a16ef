#include "tests/cuda/stand_in/kernels.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <rondo/bfloat16.hpp>
#include <rondo/float16.hpp>

#include "bench/probe/spin_loop.hpp"
#include "cuda/kernels/kernel_list.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"

namespace rondo::stand_in {
namespace {

using namespace rondo::cuda;

template <typename T>
struct Conversion {
  static float widen(unsigned short stored) { return T::from_bits(stored); }
  static unsigned short narrow(float computed) { return T(computed).bits(); }
};

using Format_f16 = Small<Conversion<float16>>;
using Format_bf16 = Small<Conversion<bfloat16>>;

Address address(const void* pointer) { return reinterpret_cast<Address>(pointer); }

/// A real device ends the context of who reads or writes an element that is not aligned.
template <typename Format>
void check_elements(const void* pointer, std::size_t count, int device) {
  using Stored = typename Format::Stored;
  if (address(pointer) % alignof(Stored) != 0) {
    mistake(fmt::format("kernel: {} is not aligned to {} bytes", pointer, alignof(Stored)));
  }
  check_access("kernel", address(pointer), count * sizeof(Stored), device);
}

template <typename Format>
void check(const DirectArguments& a, int device) {
  for (unsigned k = 0; k < a.input_count; ++k) check_elements<Format>(a.inputs[k], a.count, device);
  for (unsigned k = 0; k < a.output_count; ++k) check_elements<Format>(a.outputs[k], a.count, device);
}

template <typename Format>
void check(const CombineArguments& a, int device) {
  for (const void* const pointer : {a.left, a.right, static_cast<const void*>(a.into)}) {
    check_elements<Format>(pointer, a.count, device);
  }
}

template <typename Format>
void check(const DivideArguments& a, int device) {
  check_elements<Format>(a.data, a.count, device);
}

void check_moves(const void* arguments, int device) {
  const auto& a = *static_cast<const MoveArguments*>(arguments);
  for (unsigned m = 0; m < a.count; ++m) {
    check_access("kernel", address(a.moves[m].from), a.moves[m].bytes, device);
    check_access("kernel", address(a.moves[m].to), a.moves[m].bytes, device);
  }
}

HostKernel move() {
  const auto run = [](const void* arguments, Lane lane) {
    move_loop(*static_cast<const MoveArguments*>(arguments), lane);
  };
  return {"rondo_move", sizeof(MoveArguments), run, check_moves};
}

template <typename Format, typename Arguments, void (*loop)(const Arguments&, Lane)>
HostKernel kernel(const char* name) {
  return {name, sizeof(Arguments),
          [](const void* arguments, Lane lane) { loop(*static_cast<const Arguments*>(arguments), lane); },
          [](const void* arguments, int device) { check<Format>(*static_cast<const Arguments*>(arguments), device); }};
}

/// What the probe's spinning kernel finds here. Its clock has nanoseconds.
struct HostMachine {
  static unsigned load(unsigned* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }
  static void store(unsigned* word, unsigned value) { std::atomic_ref(*word).store(value, std::memory_order_release); }
  static unsigned long long clock() {
    return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  static void pause() { std::this_thread::yield(); }
};

void check_words(const void* arguments, int device) {
  const auto& a = *static_cast<const bench::SpinArguments*>(arguments);
  for (unsigned rank = 0; rank < a.ranks; ++rank)
    check_access("kernel", address(a.words[rank]), sizeof(unsigned), device);
  check_access("kernel", address(a.gave_up), sizeof(unsigned), device);
}

HostKernel probe_spin() {
  const auto run = [](const void* arguments, Lane lane) {
    bench::spin_loop<HostMachine>(*static_cast<const bench::SpinArguments*>(arguments), lane);
  };
  return {"rondo_probe_spin", sizeof(bench::SpinArguments), run, check_words};
}

struct SpinArguments {
  std::atomic<unsigned>* words;  ///< the first says that it runs, the second that it may end
};

void spin(const void* arguments, Lane) {
  std::atomic<unsigned>* const words = static_cast<const SpinArguments*>(arguments)->words;
  words[0] = 1;
  while (words[1] == 0) {
  }
}

}  // namespace

std::vector<HostKernel> host_kernels() {
#define FOLDS(format, op)                                                                                              \
  kernel<Format_##format, CombineArguments, &combine_loop<Format_##format, Op_##op>>("rondo_combine_" #format          \
                                                                                     "_" #op),                         \
      kernel<Format_##format, DirectArguments, &direct_loop<Format_##format, Op_##op, AsItIs>>("rondo_direct_" #format \
                                                                                               "_" #op),
#define AVERAGE(format, op)                                                                                     \
  kernel<Format_##format, DirectArguments, &direct_loop<Format_##format, Sum, Divided>>("rondo_direct_" #format \
                                                                                        "_av"                   \
                                                                                        "g"),
#define QUOTIENT(format, op) \
  kernel<Format_##format, DivideArguments, &divide_loop<Format_##format>>("rondo_divide_" #format),
#define PROBE_SUM(unroll)                                                                   \
  kernel<Format_f32, DirectArguments, &direct_loop<Format_f32, Op_sum, AsItIs, 0, unroll>>( \
      "rondo_probe_sum_unroll_" #unroll),
  return {RONDO_CUDA_ARITHMETIC(FOLDS) RONDO_CUDA_ORDER(FOLDS) RONDO_CUDA_BITS(FOLDS) RONDO_CUDA_AVERAGES(AVERAGE)
              RONDO_CUDA_QUOTIENTS(QUOTIENT) PROBE_SUM(4) PROBE_SUM(8) move(),
          probe_spin(),
          {"stand_in_spin", sizeof(SpinArguments), &spin, [](const void*, int) {}}};
#undef FOLDS
#undef AVERAGE
#undef QUOTIENT
#undef PROBE_SUM
}

}  // namespace rondo::stand_in
