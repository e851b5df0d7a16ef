#pragma once

#include <span>
#include <vector>

#include "bench/probe/part.hpp"

namespace rondo::bench {

/// A question that the probe answers.
struct Item {
  const char* name;
  const char* question;
  std::vector<int> ranks;       ///< numbers of processes, one run for each
  void (*answer)(const Part&);  ///< what each of them does
  /// Others than rank 0 are killed in it, or may end in some other way: that is the answer.
  bool deadly = false;
};

/// In the order in which they are asked. The first tells of the machine.
std::span<const Item> probe_items();

// What the processes do, in the file named after it.
void answer_machine(const Part& part);
void answer_hand_over(const Part& part);
void answer_wait_value(const Part& part);
void answer_spinning(const Part& part);
void answer_in_turn(const Part& part);
void answer_host_calls(const Part& part);
void answer_open_memory(const Part& part);
void answer_beside_kernel(const Part& part);
void answer_copies(const Part& part);
void answer_round_trip(const Part& part);
void answer_reductions(const Part& part);
void answer_death_event(const Part& part);
void answer_death_exit(const Part& part);
void answer_death_memory(const Part& part);
void answer_death_kernel(const Part& part);
void answer_free_mapped(const Part& part);

}  // namespace rondo::bench
