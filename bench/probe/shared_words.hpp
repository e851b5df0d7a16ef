#pragma once

#include <cstddef>
#include <optional>

#include "bench/probe/device_work.hpp"

namespace rondo::bench {

/// A word of each rank that all ranks' devices reach.
class Words {
 public:
  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  virtual ~Words() = default;

  virtual cuda::Address of(int rank) const = 0;
  /// All at once, before it goes.
  virtual void close() {}
};

/// In memory of the device, which is rank 0's; and one more behind them.
class DeviceWords final : public Words {
 public:
  /// All at once. They begin as 0.
  explicit DeviceWords(const Part& part) : part_(part) {
    if (part.rank == 0) {
      owned_.emplace(part, (Board::kMostRanks + 1) * kApart);
      owned_->expose();
    }
    part.barrier();
    if (part.rank != 0) mapped_.emplace(part, 0);
  }

  cuda::Address of(int rank) const override {
    return (owned_ ? owned_->address() : mapped_->address()) + static_cast<std::size_t>(rank) * kApart;
  }
  void close() override {
    mapped_.reset();
    part_.barrier();
  }

 private:
  static constexpr std::size_t kApart = 128;

  const Part& part_;
  std::optional<DeviceBuffer> owned_;
  std::optional<MappedBuffer> mapped_;
};

}  // namespace rondo::bench
