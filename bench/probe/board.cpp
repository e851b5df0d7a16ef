#include "bench/probe/board.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rondo::bench {
namespace {

constexpr std::size_t kBoardBytes = sizeof(Board::Place) * Board::kMostRanks;

}  // namespace

detail::Descriptor Board::create() {
  detail::Descriptor board(::memfd_create("rondo-probe", MFD_CLOEXEC));
  if (!board || ::ftruncate(board.get(), kBoardBytes) != 0) {
    throw std::system_error(errno, std::generic_category(), "memory for the probe's processes");
  }
  return board;
}

Board::Board(int descriptor) {
  void* const mapped = ::mmap(nullptr, kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping the probe's board");
  places_ = static_cast<Place*>(mapped);
}

Board::~Board() { ::munmap(places_, kBoardBytes); }

std::span<std::byte> Board::memory() const { return {reinterpret_cast<std::byte*>(places_), kBoardBytes}; }

void Board::barrier(int rank, int size) const {
  const std::uint32_t mine = places_[rank].arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (int other = 0; other < size; ++other) {
    wait_until([&] { return places_[other].arrived.load(std::memory_order_acquire) >= mine; });
  }
}

}  // namespace rondo::bench
