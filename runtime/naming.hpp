#pragma once

#include <utility>

#include <rondo/error.hpp>

namespace rondo::detail {

/// Does something that knows neither of this rank nor of its peer, whose errors are to name them.
template <typename Call>
auto naming(int rank, int peer, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Error::Facts facts = error.facts();
    facts.rank = rank;
    facts.peer = peer;
    throw Error(error.code(), error.cause(), std::move(facts));
  }
}

}  // namespace rondo::detail
