#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "cuda/context.hpp"

namespace rondo::cuda {

/// Memory of the host that somebody else made, pinned as long as this lives, where that can be done. The context
/// outlives it; the device must be done with the memory when it goes.
class Pinned {
 public:
  Pinned(const PrimaryContext& context, std::span<std::byte> memory) noexcept;
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  bool pinned() const noexcept { return pinned_ != nullptr; }

 private:
  const PrimaryContext& context_;
  void* pinned_ = nullptr;
};

/// Memory of the host that is pinned, so that copies to and from a device run beside the host: for messages that go
/// through it. Pinning takes long, and to undo it waits for whatever the process has queued on its devices: so blocks
/// are kept when they are given back, and used again.
///
/// Where no more can be pinned, for whatever reason, ordinary memory is handed out: copies are right, and block the
/// host while they last.
///
/// Belongs to one thread at a time. The context outlives it, and it outlives its blocks.
class Staging {
 public:
  /// Of a block that is kept. Messages and collectives need shorter ones, all but a collective of a chunk as long as
  /// this whose ranks find out in the middle of it that they cannot map each other's memory.
  static constexpr std::size_t kLongestKept = std::size_t{64} << 20;

  /// Given back when it goes; the device must then be done with it.
  class Block {
   public:
    Block(Block&& other) noexcept
        : staging_(std::exchange(other.staging_, nullptr)),
          data_(other.data_),
          size_(other.size_),
          capacity_(other.capacity_),
          pinned_(other.pinned_) {}
    Block& operator=(Block&& other) noexcept;
    ~Block() { give_back(); }

    std::byte* data() const noexcept { return data_; }
    /// What was asked for.
    std::size_t size() const noexcept { return size_; }
    bool pinned() const noexcept { return pinned_; }

   private:
    friend class Staging;
    Block(Staging& staging, std::byte* data, std::size_t size, std::size_t capacity, bool pinned) noexcept
        : staging_(&staging), data_(data), size_(size), capacity_(capacity), pinned_(pinned) {}
    void give_back() noexcept;

    Staging* staging_;
    std::byte* data_;
    std::size_t size_;
    std::size_t capacity_;
    bool pinned_;
  };

  explicit Staging(const PrimaryContext& context, std::size_t longest_kept = kLongestKept)
      : context_(context), longest_kept_(longest_kept) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `bytes` bytes, with anything in them. Throws std::bad_alloc.
  Block take(std::size_t bytes);

  /// That nobody uses.
  std::size_t free_bytes() const noexcept { return free_bytes_; }

 private:
  /// A free block holds this itself, so that giving one back needs no memory.
  struct Free {
    Free* next;
  };

  std::size_t capacity_for(std::size_t bytes) const noexcept;
  Free*& first_free(std::size_t capacity) noexcept;
  void give_back(std::byte* data, std::size_t capacity) noexcept;
  void* pin(std::size_t capacity) noexcept;
  void unpin(void* data) noexcept;

  const PrimaryContext& context_;
  const std::size_t longest_kept_;
  std::size_t free_bytes_ = 0;
  std::array<Free*, 64> free_{};  ///< by the logarithm of their capacity
};

}  // namespace rondo::cuda
