#include "cuda/staging.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace rondo::cuda {
namespace {

constexpr std::size_t kSmallestBytes = 4096;

}  // namespace

Pinned::Pinned(const PrimaryContext& context, std::span<std::byte> memory) noexcept : context_(context) {
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  if (driver.cuMemHostRegister(memory.data(), memory.size(), 0U) == Result::success) pinned_ = memory.data();
}

Pinned::~Pinned() {
  if (pinned_ == nullptr) return;
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  driver.cuMemHostUnregister(pinned_);
}

Staging::Block& Staging::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    give_back();
    staging_ = std::exchange(other.staging_, nullptr);
    data_ = other.data_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    pinned_ = other.pinned_;
  }
  return *this;
}

void Staging::Block::give_back() noexcept {
  if (staging_ == nullptr) return;
  if (pinned_) {
    staging_->give_back(data_, capacity_);
  } else {
    ::operator delete(data_);
  }
  staging_ = nullptr;
}

Staging::~Staging() {
  for (Free* first : free_) {
    while (first != nullptr) unpin(std::exchange(first, first->next));
  }
}

std::size_t Staging::capacity_for(std::size_t bytes) const noexcept {
  // What will not be kept needs no room to spare for others.
  return bytes > longest_kept_ ? bytes : std::bit_ceil(std::max(bytes, kSmallestBytes));
}

Staging::Free*& Staging::first_free(std::size_t capacity) noexcept {
  return free_[static_cast<std::size_t>(std::countr_zero(capacity))];
}

Staging::Block Staging::take(std::size_t bytes) {
  const std::size_t capacity = capacity_for(bytes);
  if (std::has_single_bit(capacity)) {
    if (Free*& first = first_free(capacity); first != nullptr) {
      void* const data = std::exchange(first, first->next);
      free_bytes_ -= capacity;
      return {*this, static_cast<std::byte*>(data), bytes, capacity, true};
    }
  }
  if (void* const data = pin(capacity)) return {*this, static_cast<std::byte*>(data), bytes, capacity, true};
  return {*this, static_cast<std::byte*>(::operator new(capacity)), bytes, capacity, false};
}

void* Staging::pin(std::size_t capacity) noexcept {
  const Driver& driver = context_.driver();
  void* data = nullptr;
  const Current current(context_, std::nothrow);
  if (!current) return nullptr;
  const Result result = driver.cuMemHostAlloc(&data, capacity, 0U);
  return result == Result::success ? data : nullptr;
}

void Staging::give_back(std::byte* data, std::size_t capacity) noexcept {
  if (capacity > longest_kept_) return unpin(data);
  Free*& first = first_free(capacity);
  first = new (data) Free{first};
  free_bytes_ += capacity;
}

void Staging::unpin(void* data) noexcept {
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  driver.cuMemFreeHost(data);
}

}  // namespace rondo::cuda
