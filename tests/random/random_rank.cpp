// A rank of a random program, under rondo-run: random_rank SEED.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <rondo/rondo.hpp>

#include "tests/random/program.hpp"

int main(int argc, char** argv) {
  using namespace rondo::testing;
  if (argc != 2) return 2;
  const Program program(std::stoull(argv[1]));
  std::signal(SIGTERM, SIG_IGN);  // who survives says what came of it
  try {
    auto world = rondo::init();
    run_rank(program, world, [] { std::raise(SIGKILL); });
    return 0;
  } catch (const rondo::Error& error) {
    if (program.ends_by(error.code())) return 3;
    std::fprintf(stderr, "wrong: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wrong: %s\n", error.what());
  }
  return 1;
}
