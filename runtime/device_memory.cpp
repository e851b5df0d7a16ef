#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <rondo/any_span.hpp>
#include <rondo/cuda.hpp>
#include <rondo/error.hpp>

#include "cuda/driver.hpp"
#include "cuda/pointer.hpp"
#include "runtime/access.hpp"
#include "runtime/deadline_wait.hpp"
#include "runtime/device_pieces.hpp"
#include "runtime/naming.hpp"

namespace rondo::cuda {
namespace {

using Allocation = rondo::detail::RankDevice::Allocation;
using rondo::detail::Engine;
using rondo::detail::naming;
using rondo::detail::Progress;

/// Others may be stuck with it.
constexpr std::chrono::milliseconds kUnmapAfterDeath{500};
/// Others who are in rondo answer by then; who is not may be waiting for this very rank.
constexpr std::chrono::milliseconds kUnmapSoon{100};
/// Nobody rings when a device has come to an end.
constexpr std::chrono::microseconds kLook{100};

/// Drives the rank until that is so, as long as it is told or, without, as others may take; meanwhile somebody may die.
template <typename Condition>
void drive_until(Engine& engine, Progress::Entry& entry, const Condition& is_so,
                 std::optional<std::chrono::milliseconds> patience = std::nullopt) {
  const auto since = engine.clock().now();
  const auto over = [&] {
    return is_so() || engine.clock().now() - since >= (patience ? *patience : engine.patience(kUnmapAfterDeath));
  };
  while (!over()) engine.progress().until(entry, over, engine.clock().now() + kLook);
}

/// Gives up what collectives took for a while and nobody uses.
void park_scratch(Engine& engine) {
  rondo::detail::RankDevice::Opened* const device = engine.device().opened();
  if (device == nullptr) return;
  for (const auto& [bytes, address] : std::exchange(device->scratch, {})) {
    engine.device().parked().push_back({address, bytes});
    engine.device_peers().retire({address, bytes});
  }
}

/// Where there is no memory left, what was given up comes back first.
Allocation allocate_or_wait(Engine& engine, Progress::Entry& entry, std::size_t bytes, const char* operation) {
  const std::vector<Allocation>& parked = engine.device().parked();
  const auto any_released = [&] {
    return std::any_of(parked.begin(), parked.end(),
                       [&](const Allocation& allocation) { return engine.device().is_released(allocation); });
  };
  for (bool freed = true;;) {
    try {
      return engine.device().allocate(bytes, operation);
    } catch (const Error& error) {
      const bool is_full = error.facts().cuda_code == static_cast<int>(Result::out_of_memory);
      if (!is_full || !freed) throw;
      park_scratch(engine);
      if (parked.empty()) throw;
    }
    drive_until(engine, entry, any_released);
    freed = any_released();
    try {
      engine.device().free_parked();
    } catch (const CudaError& error) {
      throw rondo::detail::error_of(error, operation);
    }
  }
}

/// What ends with the last who holds the memory.
struct Owner {
  std::shared_ptr<Engine> engine;
  int rank;  ///< whose it is, in the communicator that it was made with
  Allocation allocation;
  bool frees;

  void operator()(void*) const {
    if (engine->progress().forked()) return;
    try {
      Progress::Entry entry(engine->progress());
      engine->device_peers().retire(allocation);
      const auto released = [this] { return engine->device().is_released(allocation); };
      if (frees) {
        engine->device().parked().push_back(allocation);
        drive_until(*engine, entry, released, kUnmapSoon);
        engine->device().free_parked();
      } else {
        drive_until(*engine, entry, released);
        auto& exports = engine->device().opened()->exports;
        exports.released(allocation.address);
        if (!exports.is_closed(allocation.address, allocation.bytes))
          engine->log().warn("{} bytes of the device are still mapped by others", allocation.bytes);
      }
    } catch (const std::exception& error) {
      engine->log().warn("memory of the device was not released: {}", error.what());
    }
  }
};

std::shared_ptr<void> owned(Owner owner) {
  void* const memory = reinterpret_cast<void*>(owner.allocation.address);
  return {memory, std::move(owner)};
}

/// What is on its way between the memory of the host and of a device.
struct Piece {
  std::shared_ptr<Staging::Block> block;
  std::size_t at = 0;
  std::size_t bytes = 0;
  bool over = true;
  std::exception_ptr failure;
};

/// Drives the rank until the piece is over, for as long as operations may take. A stream that waits for a rank which
/// has died may never come to it. Throws Error.
void await(Engine& engine, Progress::Entry& entry, const Piece& piece, const Error::Facts& facts) {
  const auto since = engine.clock().now();
  std::optional<rondo::detail::Time> died;
  const auto is_lost = [&] {
    if (!engine.failure_seen() || !engine.device().waits_for_others()) {
      died.reset();
      return false;
    }
    if (!died) died = engine.clock().now();
    return engine.clock().now() - *died >= engine.patience(kUnmapAfterDeath);
  };
  const auto timeout = engine.settings().timeout;
  const auto deadline = timeout ? std::optional(since + *timeout) : std::nullopt;
  const bool came = engine.progress().until(
      entry, [&] { return piece.over || is_lost(); }, deadline);
  if (piece.over) return;
  if (came) {
    throw Error(Errc::peer_failed, "the device did not copy it: a stream waits for a rank that is late, or has died",
                facts);
  }
  throw Error(
      Errc::timed_out,
      fmt::format("the device did not copy it within {} (RONDO_TIMEOUT)", rondo::detail::seconds_text(*timeout)),
      facts);
}

/// Copies all that is in use from `from_host` or to `to_host`; returns when that is over. In pieces, two at a time: out
/// of the caller's memory, or into it, which is not pinned, the driver would copy while the whole rank waits.
void copy(const char* operation, const std::shared_ptr<void>& memory, std::size_t bytes, std::size_t on_host,
          CudaStream stream, const std::byte* from_host, std::byte* to_host) {
  const Error::Facts facts{.operation = operation};
  if (on_host != bytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("got {} bytes of the host's memory, wanted {}, as many as the buffer has", on_host, bytes),
                facts);
  }
  if (bytes == 0) return;
  Engine& engine = *std::get_deleter<Owner>(memory)->engine;
  rondo::detail::DeviceBytes data;
  data.data = memory.get();
  data.size = bytes;
  data.stream = stream;
  Progress::Entry entry(engine.progress());
  const auto buffer = engine.device().begin(data, operation);
  constexpr std::size_t kPiece = rondo::detail::DevicePieces::kBytes;
  std::array<std::shared_ptr<Piece>, 2> pieces;
  for (auto& piece : pieces) {
    piece = std::make_shared<Piece>();
    piece->block = engine.device().stage(std::min(bytes, kPiece));
  }
  // Those behind the end wait for the last ones.
  for (std::size_t at = 0; at < bytes + pieces.size() * kPiece; at += kPiece) {
    const std::shared_ptr<Piece>& piece = pieces[at / kPiece % pieces.size()];
    try {
      await(engine, entry, *piece, facts);
    } catch (const Error&) {
      buffer->given_up = true;
      throw;
    }
    if (piece->failure) throw rondo::detail::error_of(piece->failure, {}, facts);
    if (to_host != nullptr) std::memcpy(to_host + piece->at, piece->block->data(), piece->bytes);
    *piece = {piece->block, at, at < bytes ? std::min(bytes - at, kPiece) : 0, at >= bytes, {}};
    if (piece->over) continue;
    const std::span<std::byte> staged(piece->block->data(), piece->bytes);
    const auto ended = [piece](const std::exception_ptr& failure) {
      piece->failure = failure;
      piece->over = true;
    };
    if (from_host != nullptr) std::memcpy(staged.data(), from_host + at, staged.size());
    if (from_host != nullptr) {
      engine.device().write(buffer, staged, -1, ended, at);
    } else {
      engine.device().read(buffer, staged, -1, ended, at);
    }
  }
}

/// The rank whose buffer it is; -1: an empty one, nobody's.
int rank_of(const std::shared_ptr<void>& memory) { return memory ? std::get_deleter<Owner>(memory)->rank : -1; }

}  // namespace

bool available() noexcept { return driver().driver.has_value(); }
std::string why_unavailable() { return driver().reason; }

namespace detail {

std::shared_ptr<void> allocate(Communicator& communicator, std::size_t bytes) {
  constexpr const char* kOperation = "cuda::buffer";
  const int rank = CommunicatorAccess::group(communicator, kOperation).rank();
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  const auto made = naming(rank, -1, [&] { return allocate_or_wait(*engine, entry, bytes, kOperation); });
  return owned({engine, rank, made, true});
}

std::shared_ptr<void> hold(Communicator& communicator, const void* data, std::size_t bytes) {
  constexpr const char* kOperation = "cuda::registration";
  const int rank = CommunicatorAccess::group(communicator, kOperation).rank();
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  rondo::detail::DeviceBytes memory;
  memory.data = data;
  memory.size = bytes;
  const auto found = naming(rank, -1, [&] { return engine->device().find(memory, kOperation); });
  return owned({engine, rank, found, false});
}

void copy_from(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<const std::byte> host,
               CudaStream stream) {
  naming(rank_of(memory), -1,
         [&] { copy("cuda::buffer::copy_from", memory, bytes, host.size(), stream, host.data(), nullptr); });
}

void copy_to(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<std::byte> host, CudaStream stream) {
  naming(rank_of(memory), -1,
         [&] { copy("cuda::buffer::copy_to", memory, bytes, host.size(), stream, nullptr, host.data()); });
}

}  // namespace detail

}  // namespace rondo::cuda

namespace rondo::detail {

bool is_on_device(const void* data) {
  const auto& driver = cuda::driver().driver;
  if (!driver) return false;
  try {
    return cuda::classify_anywhere(*driver, cuda::address_of(data)).kind != cuda::PointerFacts::Kind::host;
  } catch (const cuda::CudaError& error) {
    throw error_of(error, "any_span", fmt::format("{}: ", data));
  }
}

}  // namespace rondo::detail
