#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <rondo/tuning.hpp>

#include "tools/sim_options.hpp"
#include "tools/sim_report.hpp"

namespace rondo::tools {
namespace {

Plan plan_for(const SimOptions& options, const Choice& choice) {
  Plan plan;
  plan.collective = options.collective;
  plan.algorithm = choice.algorithm;
  plan.root = options.root;
  plan.commutative = options.commutative;
  plan.chunk = choice.chunk_bytes;
  plan.lanes = options.lanes;
  plan.blocks = Blocks::even(options.bytes, options.ranks);
  plan.recv_blocks = plan.blocks;
  return plan;
}

SimResult predict(const SimOptions& options, const Question& question, Algorithm algorithm) {
  Choice choice = choose(question, algorithm);
  if (options.chunk_bytes) choice.chunk_bytes = *options.chunk_bytes;
  const Plan plan = plan_for(options, choice);
  SimResult result;
  result.algorithm = choice.algorithm;
  result.chunk_bytes = choice.chunk_bytes;
  result.is_chosen = choice.algorithm == choose(question).algorithm;
  result.stated = simulation::formula(plan, options.ranks, options.model);
  if (result.stated.time == simulation::kForever) {
    throw std::runtime_error(
        fmt::format("{} of {} bytes, chunk {}: it takes more than 104 days, which is not simulated",
                    to_string(result.algorithm), options.bytes, result.chunk_bytes));
  }
  result.is_simulated = result.stated.total_messages <= options.max_messages;
  result.run = result.is_simulated ? simulation::simulate(plan, options.ranks, options.model) : result.stated;
  return result;
}

int run(const SimOptions& options) {
  const Question question{options.collective, options.bytes, options.ranks, false, options.commutative};
  std::vector<SimResult> results;
  for (const Algorithm algorithm : options.algorithms) results.push_back(predict(options, question, algorithm));
  fmt::print("{}", options.json ? sim_json(options, results) : sim_table(options, results));
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
  return 0;
}

}  // namespace
}  // namespace rondo::tools

int main(int argc, char** argv) {
  int exit_status = 0;
  const auto options = rondo::tools::parse_sim_options(argc, argv, exit_status);
  if (!options) return exit_status;
  try {
    return rondo::tools::run(*options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rondo-sim: {}\n", error.what());
    return 1;
  }
}
