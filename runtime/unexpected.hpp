#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/list.hpp"
#include "transport/frame.hpp"

namespace rondo::detail {

class ReceiveMessage;
struct InUnexpected;
struct InBucket;

/// Bytes that are not set to anything before they are written.
class Payload {
 public:
  void resize(std::size_t size) {
    if (size > capacity_) {
      memory_.reset(new std::byte[size]);
      capacity_ = size;
    }
    size_ = size;
  }
  void assign(std::span<const std::byte> bytes) {
    resize(bytes.size());
    if (!bytes.empty()) std::memcpy(memory_.get(), bytes.data(), bytes.size());
  }
  std::byte* data() noexcept { return memory_.get(); }
  std::size_t capacity() const noexcept { return capacity_; }
  operator std::span<const std::byte>() const noexcept { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// A message that came before its receive was posted. `rts` has no payload here: it waits at the sender.
struct Unexpected : ListNode<Unexpected, InUnexpected>, ListNode<Unexpected, InBucket> {
  FrameHeader header;
  int source = -1;  // in the group
  Payload payload;
  bool complete = false;
  ReceiveMessage* claimed_by = nullptr;

  /// What a receive that names it knows for sure: the operation's number, or the source.
  std::uint32_t key() const noexcept {
    return header.context == FrameHeader::collective ? header.number : static_cast<std::uint32_t>(source);
  }
};

/// Messages of one communicator and context, in the order in which they came; found by their key however many there
/// are. (A root that is behind may have thousands.)
class UnexpectedMessages {
 public:
  bool empty() const noexcept { return all_.empty(); }
  Unexpected* head() const noexcept { return all_.head(); }
  static Unexpected* next(Unexpected& message) noexcept { return Messages::next(message); }

  /// The first for which `wanted` holds, which may be so for this key only; nullptr: there is none. Looks at those with
  /// the key, and at a few others.
  template <typename Wanted>
  Unexpected* find(std::uint32_t key, Wanted wanted) const {
    Unexpected* message = buckets_[place_of(key)].head();
    while (message && !wanted(*message)) message = Bucket::next(*message);
    return message;
  }
  /// The first of all for which it holds.
  template <typename Wanted>
  Unexpected* find(Wanted wanted) const {
    Unexpected* message = all_.head();
    while (message && !wanted(*message)) message = Messages::next(*message);
    return message;
  }

  void push(Unexpected& message) {
    if (++count_ > kPerBucket * buckets_.size()) grow();
    all_.push(message);
    bucket_of(message).push(message);
  }
  void remove(Unexpected& message) noexcept {
    --count_;
    all_.remove(message);
    bucket_of(message).remove(message);
  }

 private:
  using Messages = List<Unexpected, InUnexpected>;
  using Bucket = List<Unexpected, InBucket>;
  static constexpr std::size_t kPerBucket = 4;

  std::size_t place_of(std::uint32_t key) const noexcept { return key & (buckets_.size() - 1); }
  Bucket& bucket_of(const Unexpected& message) noexcept { return buckets_[place_of(message.key())]; }
  void grow() {
    std::vector<Bucket> more(2 * buckets_.size());
    for (Unexpected* message = all_.head(); message; message = Messages::next(*message)) {
      bucket_of(*message).remove(*message);
      more[message->key() & (more.size() - 1)].push(*message);
    }
    buckets_ = std::move(more);
  }

  Messages all_;
  std::vector<Bucket> buckets_ = std::vector<Bucket>(16);  // a power of two
  std::size_t count_ = 0;
};

}  // namespace rondo::detail
