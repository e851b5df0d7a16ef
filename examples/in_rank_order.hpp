#pragma once

#include <cstdio>
#include <span>
#include <string>

#include <rondo/rondo.hpp>

/// Prints the text of every rank, in the order of the ranks: all of them send theirs to rank 0, which prints
/// it. Every rank calls this. Ranks that print for themselves are heard in any order.
inline void print_in_rank_order(rondo::Communicator& world, std::string text) {
  if (world.rank() != 0) {
    world.send(std::span(text), 0);
    return;
  }
  std::fputs(text.c_str(), stdout);
  for (int rank = 1; rank < world.size(); ++rank) {
    // How long the text is, only its sender knows: look at the message before receiving it.
    text.resize(world.probe(rank).count<char>());
    world.recv(std::span(text), rank);
    std::fputs(text.c_str(), stdout);
  }
}
