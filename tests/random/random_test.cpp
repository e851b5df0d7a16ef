// Random programs: collectives of every kind, waited for or left under way, in buffers that come and go, in groups that
// come and go, messages in between; each rank late in its own way; some end by a rank that dies or errs. Every result
// is that of a simple model, and every rank hears of the end.
//
// A failure names its seed; RONDO_TEST_SEED=N runs that one alone, TEST_MORE_SEEDS=N N times as many.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/random/program.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"
#include "tests/support/seeds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

void run_threads(std::uint64_t seed) {
  const Program program(seed);
  const auto die = [] { throw std::runtime_error("this rank dies here"); };
  const auto body = [&](Communicator& world) { run_rank(program, world, die); };
  if (program.end == Program::End::in_order) return run_ranks(program.size, body, program.config);

  const auto outcomes = try_ranks(program.size, body, program.config);
  // Who calls no collective with others makes no mistake.
  if (program.end == Program::End::mistake && std::ranges::none_of(outcomes, &Outcome::failed)) return;
  std::string texts;
  bool right = true;
  for (int rank = 0; rank < program.size; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    texts += "\nrank " + std::to_string(rank) + ": " + outcome.error;
    const bool dies = program.end == Program::End::death && rank == program.culprit;
    right &= outcome.failed() && (dies || program.ends_by(outcome.code));
  }
  if (!right) throw std::runtime_error("not every rank heard of the end:" + texts);
}

void run_processes(std::uint64_t seed) {
  const Program program(seed);
  std::vector<std::string> words{"-n", std::to_string(program.size)};
  std::istringstream variables(rondo::to_string(program.config));
  for (std::string variable; std::getline(variables, variable);) {
    if (!variable.ends_with('=')) words.insert(words.end(), {"-x", variable});
  }
  words.insert(words.end(), {"--", RANDOM_RANK, std::to_string(program.seed)});
  const auto ended = rondo::test::launch(words);
  const bool right = program.end == Program::End::in_order ? ended.status == 0
                     : program.end == Program::End::death  ? ended.status == 128 + SIGKILL
                                                           : ended.status == 0 || ended.status == 3;
  if (!right || ended.err.find("wrong: ") != std::string::npos) throw std::runtime_error(ended.out + ended.err);
}

}  // namespace

TEST_CASE("random programs of threads give every rank what a model says", "[random]") {
  for_seeds(rounds(std::uint64_t{32}), run_threads);
}

TEST_CASE("random programs of processes give every rank what a model says", "[random]") {
  for_seeds(rounds(std::uint64_t{16}), run_processes);
}
