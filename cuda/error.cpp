#include "cuda/error.hpp"

#include <fmt/format.h>

namespace rondo::cuda {
namespace {

std::string describe(const std::string& call, Result code, const std::string& name, const std::string& words,
                     const CudaFacts& facts) {
  std::string text = fmt::format("{}: got {} ({})", call, name, static_cast<unsigned>(code));
  if (!words.empty()) text += ": " + words;
  if (facts.peer >= 0) text += fmt::format(", rank {}", facts.peer);
  if (facts.bytes > 0) text += fmt::format(", {} bytes", facts.bytes);
  return text;
}

}  // namespace

CudaError::CudaError(const std::string& call, Result code, const std::string& name, const std::string& words,
                     const CudaFacts& facts)
    : std::runtime_error(describe(call, code, name, words, facts)),
      call_(call),
      code_(code),
      name_(name),
      facts_(facts) {}

}  // namespace rondo::cuda
