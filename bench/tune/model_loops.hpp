#pragma once

#include "bench/compare/loop.hpp"
#include "bench/tune/prediction.hpp"

namespace rondo::bench {

class Machine;

/// Whether the model says what a loop takes: of messages one way, and of collectives in which every rank waits for
/// others in each call. Of one with a root it says what a call takes, and of a loop nothing: ranks run ahead in it.
bool has_model(const Loop& loop);

/// What a loop takes in the model, in microseconds, with the machine's constants, by the algorithm that takes least: in
/// shared memory of those that have no messages. Of a message as much as it takes to copy it once or twice.
double least_microseconds(const Loop& loop, int ranks, const Place& place, const Machine& machine);

/// Prints the lines of a program that runs loops, with what the model says for times.
int print_model(const LoopSettings& settings, Path path);

}  // namespace rondo::bench
