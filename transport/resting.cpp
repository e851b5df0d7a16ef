#include "transport/resting.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo::detail {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

// Who could not register makes up for it by a read-modify-write at each look.
const bool Resting::ordered_by_kernel_ = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
std::atomic<bool> Resting::orders_others_{ordered_by_kernel_};

void Resting::order() noexcept {
  static Word fence{0};
  fence.fetch_add(1, std::memory_order_seq_cst);
  orders_others_.store(membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED), std::memory_order_relaxed);
}

}  // namespace rondo::detail
