#include "bench/probe/item.hpp"

#include <array>

namespace rondo::bench {

std::span<const Item> probe_items() {
  static const std::array items{
      Item{"machine", "which device and driver", {1}, answer_machine},
      Item{"hand_over", "from one process's kernel to the next one's", {1, 2, 4, 8}, answer_hand_over},
      Item{"wait_value", "the same, by streams that wait for words in memory", {2, 4, 8}, answer_wait_value},
      Item{"spinning", "the same, by kernels that wait for each other", {2, 4, 8}, answer_spinning},
      Item{"in_turn", "which work makes the device change between processes", {2}, answer_in_turn},
      Item{"host_calls", "what calls cost the host", {2}, answer_host_calls},
      Item{"open_memory", "what it costs to map another process's allocation", {2}, answer_open_memory},
      Item{"beside_kernel", "which calls wait for what is queued on the device", {2}, answer_beside_kernel},
      Item{"copies", "copies on the device, and while another process computes", {2}, answer_copies},
      Item{"round_trip", "to the host and back, and while another process computes", {2}, answer_round_trip},
      Item{"reductions", "kernels that sum, by ranks and blocks", {2, 4, 8}, answer_reductions},
      Item{"death_event", "a process dies whose event is waited for", {2}, answer_death_event, true},
      Item{"death_exit", "a process ends while its stream waits for one that died", {3}, answer_death_exit, true},
      Item{"death_memory", "a process dies whose memory is mapped", {2}, answer_death_memory, true},
      Item{"death_kernel", "a process dies while its kernel runs", {2}, answer_death_kernel, true},
      Item{"free_mapped", "memory is freed while another process maps it", {2}, answer_free_mapped, true},
  };
  return items;
}

}  // namespace rondo::bench
