#pragma once

#include <rondo/communicator.hpp>

#include "bench/session.hpp"

namespace rondo::bench {

/// The ranks of a communicator, for the measuring loop.
class RondoFabric final : public Fabric {
 public:
  explicit RondoFabric(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  void barrier() override;
  void fold(std::span<double> values, Fold how) override;

 private:
  Communicator& communicator_;
};

/// rondo itself, as called through `world`. Every rank makes one. The arguments outlive the subject.
Subject rondo_subject(Communicator& world, const Settings& settings);

/// What the library runs where the settings name no algorithm: the environment's preference, or the table's answer.
Algorithm chosen_algorithm(const Communicator& world, const Settings& settings, const Shape& shape);

}  // namespace rondo::bench
