#include "bench/kernels.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <rondo/element_type.hpp>
#include <rondo/op.hpp>
#include <rondo/size.hpp>

#include "bench/command_line.hpp"
#include "bench/settings.hpp"
#include "collectives/reduction_kernels.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Three such vectors stay in a core's own caches.
constexpr std::size_t kCached = std::size_t{64} << 10;

struct KernelSettings {
  std::size_t bytes = std::size_t{64} << 20;
  bool all = false;
};

KernelSettings parse_kernel_settings(const std::vector<std::string>& arguments) {
  KernelSettings settings;
  std::string bytes = format_size(settings.bytes);
  CLI::App app{"How fast two vectors are combined into a third, by one thread: for each type and operator.",
               "rondo-bench kernels"};
  app.add_option("--bytes", bytes, "of each vector, more than caches hold")->capture_default_str();
  app.add_flag("--all", settings.all, "for all instructions that this processor has, not only the fastest");
  parse(app, arguments);
  settings.bytes = size_of(bytes, "--bytes");
  if (settings.bytes < kCached)
    throw UsageError(fmt::format("--bytes: got {}, wanted at least {}", bytes, format_size(kCached)));
  return settings;
}

/// Bytes in a second, in 10^9, at best of some times: what disturbs makes it only slower.
template <typename Work>
double best_GBps(std::size_t bytes, const Work& work) {
  constexpr int kTimes = 5;
  double least = 0;
  for (int time = 0; time < kTimes; ++time) {
    const auto begin = Clock::now();
    work();
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    least = time == 0 ? took : std::min(least, took);
  }
  return static_cast<double>(bytes) / least / 1e9;
}

/// A line of memory: long vectors begin with one, as what ranks lay out for each other does, and what `allocate` gives.
struct alignas(64) Line {
  std::array<std::byte, 64> bytes;
  explicit Line(std::byte value) { bytes.fill(value); }
};

/// Three vectors of the host's memory.
class Vectors {
 public:
  explicit Vectors(std::size_t bytes)
      : bytes_(bytes),
        left_(bytes / sizeof(Line) + 1, Line(std::byte{1})),
        right_(left_),
        into_(left_.size(), Line(std::byte{0})) {}

  /// Read and written.
  double copying() {
    return best_GBps(2 * bytes_, [&] { std::memcpy(into_.data(), left_.data(), bytes_); });
  }
  double combining(detail::FoldKernel fold, ElementType type, std::size_t bytes) {
    const std::array<const std::byte*, 2> inputs{left_.data()->bytes.data(), right_.data()->bytes.data()};
    std::byte* const into = into_.data()->bytes.data();
    const std::size_t count = bytes / element_bytes(type);
    const std::size_t repeats = std::max<std::size_t>(bytes_ / bytes / 8, 1);
    return best_GBps(3 * bytes * repeats, [&] {
      for (std::size_t i = 0; i < repeats; ++i) fold(nullptr, inputs.data(), inputs.size(), into, count);
    });
  }

 private:
  const std::size_t bytes_;
  std::vector<Line> left_, right_, into_;
};

}  // namespace

int kernels_command(const std::vector<std::string>& arguments) {
  const KernelSettings settings = parse_kernel_settings(arguments);
  Vectors vectors(settings.bytes);
  const double copying = vectors.copying();
  fmt::print(
      "# two vectors combined into a third by one thread; GB/s read and written, the best of some times\n"
      "# memory: of vectors of {}; copy%: of what copying one there comes to, {:.1f} GB/s; cache: of {}\n"
      "#{:>13}{:>12}{:>8}{:>10}{:>8}{:>10}\n",
      format_size(settings.bytes), copying, format_size(kCached), "instructions", "type", "redop", "memory", "copy%",
      "cache");
  const auto variants = detail::kernel_variants();
  for (const auto& [instructions, kernels] : settings.all ? variants : variants.last(1)) {
    for (std::size_t type = 0; type < detail::kElementTypes; ++type) {
      for (std::size_t kind = 0; kind < detail::kReduceKinds; ++kind) {
        const detail::FoldKernel fold = kernels->fold[type][kind];
        if (fold == nullptr) continue;
        const auto element = static_cast<ElementType>(type);
        const double memory = vectors.combining(fold, element, settings.bytes);
        fmt::print("{:>14}{:>12}{:>8}{:>10.1f}{:>8.0f}{:>10.1f}\n", instructions, to_string(element),
                   to_string(static_cast<ReduceKind>(kind)), memory, 100 * memory / copying,
                   vectors.combining(fold, element, kCached));
      }
    }
  }
  return std::fflush(stdout) == 0 ? kExitGood : kExitFailed;
}

}  // namespace rondo::bench
