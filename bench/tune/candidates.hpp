#pragma once

#include <vector>

#include <rondo/tuning.hpp>

#include "bench/compare/contender.hpp"
#include "bench/compare/loop.hpp"

namespace rondo::bench {

/// What an operation of so many bytes asks, between ranks of one host on a path.
Question question_of(Operation operation, std::size_t bytes, Path path, int ranks, int cores);

/// What may answer a question: every algorithm that can, one that is pipelined with several sizes of chunks and whole
/// (chunk 0) and in what the table takes. The question's bytes are those of the whole vector.
std::vector<Choice> candidates_for(const Question& question);

/// Whether chunks make a difference to the algorithm's messages.
bool is_pipelined(Collective collective, Algorithm algorithm);

/// The loop that times a candidate. (In a call, chunk 0 would mean the table's.)
Loop loop_of(Operation operation, std::size_t bytes, const Choice& choice);

/// The operation that times a collective.
Operation operation_of(Collective collective);

}  // namespace rondo::bench
