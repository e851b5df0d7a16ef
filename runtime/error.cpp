#include <utility>

#include <fmt/format.h>

#include <rondo/error.hpp>

namespace rondo {
namespace {

std::string describe(Errc code, const std::string& cause, const Error::Facts& facts) {
  std::string text = "rondo: ";
  if (facts.rank >= 0) text += fmt::format("rank {}", facts.rank);
  if (facts.world_rank >= 0) text += fmt::format(" (rank {} of the world)", facts.world_rank);
  if (facts.rank >= 0) text += ": ";
  if (!facts.operation.empty()) {
    text += facts.operation;
    if (facts.number > 0) text += fmt::format(" #{}", facts.number);
    text += ": ";
  }
  text += cause;
  if (facts.elapsed.count() > 0) {
    text += fmt::format(" after {:.2f} s", std::chrono::duration<double>(facts.elapsed).count());
  }
  return text + fmt::format(" [{}]", to_string(code));
}

}  // namespace

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::not_initialized: return "not_initialized";
    case Errc::concurrent_use: return "concurrent_use";
    case Errc::bad_configuration: return "bad_configuration";
    case Errc::forked: return "forked";
    case Errc::truncated: return "truncated";
    case Errc::type_mismatch: return "type_mismatch";
    case Errc::collective_mismatch: return "collective_mismatch";
    case Errc::peer_failed: return "peer_failed";
    case Errc::timed_out: return "timed_out";
    case Errc::bootstrap_failed: return "bootstrap_failed";
    case Errc::authentication: return "authentication";
    case Errc::address_in_use: return "address_in_use";
    case Errc::duplicate_rank: return "duplicate_rank";
    case Errc::protocol: return "protocol";
    case Errc::system: return "system";
    case Errc::cuda: return "cuda";
  }
  return "unknown";
}

Error::Error(Errc code, const std::string& cause) : Error(code, cause, Facts{}) {}

Error::Error(Errc code, const std::string& cause, Facts facts)
    : std::runtime_error(describe(code, cause, facts)), code_(code), cause_(cause), facts_(std::move(facts)) {}

Error::~Error() = default;

}  // namespace rondo
