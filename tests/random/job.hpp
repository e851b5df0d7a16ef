#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/random/program.hpp"

namespace rondo::testing {

/// Bytes for one operation, between others that must stay as they are.
class Place {
 public:
  static constexpr std::size_t kMargin = 32;

  /// `whole` has a margin on both sides; `owner` keeps it.
  Place(std::span<std::byte> whole, std::shared_ptr<void> owner) : whole_(whole), owner_(std::move(owner)) {
    std::ranges::fill(whole_, kUntouched);
  }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(whole_.data() + kMargin), (whole_.size() - 2 * kMargin) / sizeof(T)};
  }
  void check_margins() const {
    if (std::ranges::count(whole_.first(kMargin), kUntouched) != kMargin ||
        std::ranges::count(whole_.last(kMargin), kUntouched) != kMargin) {
      throw std::runtime_error("bytes beside a buffer were written");
    }
  }

 private:
  static constexpr std::byte kUntouched{0xa5};
  std::span<std::byte> whole_;
  std::shared_ptr<void> owner_;
};

/// The memory of one thread: what it has allocated with others, one operation in each at a time, and its own.
class Memory {
 public:
  explicit Memory(std::minstd_rand& own) : own_(own) {}

  void add(SharedBuffer<std::byte> buffer) {
    shared_.push_back(std::make_shared<SharedBuffer<std::byte>>(std::move(buffer)));
  }
  /// Gives one up that nothing lies in.
  void give_one_up() {
    if (const auto found = unused(0); found != shared_.end()) shared_.erase(found);
  }
  /// `shared`: rather in what has been allocated.
  Place place(std::size_t bytes, bool shared) {
    const std::size_t whole = (bytes + 7) / 8 * 8 + 2 * Place::kMargin;
    const auto between = [&](std::span<std::byte> memory, std::size_t begin, auto owner) {
      return Place(memory.subspan(begin, bytes + 2 * Place::kMargin), std::move(owner));
    };
    if (const auto found = unused(whole); found != shared_.end() && (shared || own_() % 8 == 0)) {
      const std::size_t begin = own_() % 2 == 0 ? 0 : own_() % (((*found)->size() - whole) / 8 + 1) * 8;
      return between((*found)->span(), begin, *found);
    }
    auto memory = std::make_shared<std::vector<std::byte>>(whole);
    return between(*memory, 0, memory);
  }

 private:
  using Shared = std::vector<std::shared_ptr<SharedBuffer<std::byte>>>;
  Shared::iterator unused(std::size_t bytes) {
    std::ranges::shuffle(shared_, own_);
    return std::ranges::find_if(shared_, [&](auto& one) { return one.use_count() == 1 && one->size() >= bytes; });
  }

  std::minstd_rand& own_;
  Shared shared_;
};

/// What a rank does in one step, with its buffers.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;
  /// Sets the elements, others for each `repeat`, and calls it. The Work is not valid where it was waited for: then the
  /// result has been checked, too.
  virtual Work call(Communicator& group, int repeat, bool blocking) = 0;
  /// Throws what is wrong with the result.
  virtual void check(const Status& status) = 0;
};

std::unique_ptr<Job> make_collective(const CollectiveStep& step, const Communicator& group, Memory& memory,
                                     std::minstd_rand& own);
/// One end of a rank's messages.
std::unique_ptr<Job> make_message(const MessageStep& step, const Communicator& group, bool sends, Memory& memory,
                                  std::minstd_rand& own);

}  // namespace rondo::testing
