#include "cuda/import_table.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <mutex>

#include <fmt/format.h>

namespace rondo::cuda {
namespace {

bool overlap(const RegionDescription& a, const RegionDescription& b) {
  return a.base < b.base + b.bytes && b.base < a.base + a.bytes;
}

/// Of all tables of the process: two threads that open one handle at the same time confuse the driver, as may one that
/// closes what another opens. So one opens at a time, and none while another closes, which nobody waits for: to close
/// may wait for the device, and that for what the thread that is to open does next.
struct Turns {
  std::mutex opening;
  int closing = 0;  ///< threads that do; under the mutex
};

Turns& turns() {
  static Turns of_all;
  return of_all;
}

class Closing {
 public:
  Closing() noexcept { count(1); }
  ~Closing() { count(-1); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  static void count(int change) noexcept {
    const std::scoped_lock lock(turns().opening);
    turns().closing += change;
  }
};

}  // namespace

ImportTable::Use& ImportTable::Use::operator=(Use&& other) noexcept {
  if (this != &other) {
    release();
    table_ = std::exchange(other.table_, nullptr);
    id_ = other.id_;
    address_ = other.address_;
  }
  return *this;
}

void ImportTable::Use::release() noexcept {
  if (table_ != nullptr) table_->end_use(id_);
  table_ = nullptr;
}

ImportTable::~ImportTable() {
  for (auto& [id, import] : imports_) {
    assert(import.uses == 0);
    close(import);
  }
}

void ImportTable::announce(const RegionDescription& region) {
  if (region.bytes == 0 || region.base + region.bytes < region.base) {
    throw RegionError(fmt::format("it described region {} of {} bytes at {:#x}", region.id, region.bytes, region.base));
  }
  if (!imports_.try_emplace(region.id, Import{.region = region}).second) {
    throw RegionError(fmt::format("it described region {} twice", region.id));
  }
}

bool ImportTable::has(RegionId region) const noexcept {
  const auto found = imports_.find(region);
  return found != imports_.end() && !found->second.ended;
}

bool ImportTable::in_use() const noexcept {
  return std::any_of(imports_.begin(), imports_.end(), [](const auto& import) { return import.second.uses > 0; });
}

ImportTable::Import& ImportTable::find(RegionId region) {
  const auto found = imports_.find(region);
  if (found != imports_.end() && !found->second.ended) return found->second;
  throw RegionError(fmt::format("it spoke of region {}, which there is not", region));
}

std::optional<ImportTable::Use> ImportTable::use(RegionId region, std::uint64_t offset, std::uint64_t bytes) {
  Import& import = find(region);
  if (offset > import.region.bytes || bytes > import.region.bytes - offset) {
    throw RegionError(fmt::format("it spoke of {} bytes at {} of region {}, which has {}", bytes, offset, region,
                                  import.region.bytes));
  }
  if (import.mapped == 0) {
    if (must_wait(import) || !map(import)) return std::nullopt;
  } else if (import.uses == 0) {
    --idle_;
  }
  ++import.uses;
  return Use(*this, region, import.mapped + offset);
}

bool ImportTable::must_wait(const Import& wanted) const {
  for (const auto& [id, import] : imports_) {
    if (import.mapped == 0 || !overlap(import.region, wanted.region)) continue;
    if (!import.ended) {
      throw RegionError(
          fmt::format("its region {} lies where region {} does, which it has not ended", wanted.region.id, id));
    }
    return true;
  }
  return false;
}

bool ImportTable::map(Import& import) {
  const std::scoped_lock lock(turns().opening);
  if (turns().closing > 0) return false;
  const Driver& driver = context_.driver();
  const Current current(context_);
  driver.must(CudaFacts{.peer = peer_, .bytes = import.region.bytes}, driver.cuIpcOpenMemHandle, &import.mapped,
              import.region.handle, kIpcLazyPeerAccess);
  import.room = Room::found;
  return true;
}

ImportTable::Import* ImportTable::longest_idle() noexcept {
  Import* longest = nullptr;
  for (auto& [id, import] : imports_) {
    if (import.mapped == 0 || import.uses > 0) continue;
    if (longest == nullptr || import.idle_since < longest->idle_since) longest = &import;
  }
  return longest;
}

std::optional<std::uint64_t> ImportTable::idle_since() noexcept {
  const Import* const longest = longest_idle();
  return longest == nullptr ? std::nullopt : std::optional(longest->idle_since);
}

void ImportTable::close_idle() noexcept {
  if (Import* const longest = longest_idle()) close(*longest);
}

void ImportTable::unmap(RegionId region) {
  Import& import = find(region);
  import.ended = true;
  if (import.mapped != 0) {
    if (import.uses == 0) due_.push_back(region);
    return;
  }
  closed_.push_back(region);
  imports_.erase(region);
}

void ImportTable::close_due() noexcept {
  for (const RegionId region : std::exchange(due_, {})) {
    close(imports_.at(region));
    closed_.push_back(region);
    imports_.erase(region);
  }
  while (idle_ > most_idle_) close_idle();
}

void ImportTable::end_use(RegionId region) noexcept {
  static std::atomic<std::uint64_t> ended_of_all{0};
  Import& import = imports_.at(region);
  import.idle_since = ++ended_of_all;
  if (--import.uses > 0) return;
  ++idle_;
  if (import.ended) due_.push_back(region);
}

void ImportTable::close(Import& import) noexcept {
  const Address mapped = std::exchange(import.mapped, 0);
  if (mapped == 0) return;
  --idle_;
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  const Closing closing;
  driver.cuIpcCloseMemHandle(mapped);
}

std::size_t ImportTable::mapped() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(imports_.begin(), imports_.end(), [](const auto& entry) { return entry.second.mapped != 0; }));
}

}  // namespace rondo::cuda
