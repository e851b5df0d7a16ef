#include <algorithm>
#include <cstdint>
#include <string>

#include <rondo/error.hpp>
#include <rondo/tuning.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::reduce,     Collective::broadcast,
                                       Collective::scatter,        Collective::gather,     Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

}  // namespace

TEST_CASE("the table answers every question with an algorithm that is right", "[collectives][tuning]") {
  for (const Collective collective : kCollectives) {
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{1} << 16U, kAnyBytes}) {
      for (const int ranks : {1, 2, 3, 4, 8, 17, 100, 65536, kAnyRanks}) {
        for (const bool oversubscribed : {false, true}) {
          for (const bool commutative : {false, true}) {
            const Choice choice = choose({collective, bytes, ranks, oversubscribed, commutative});
            CHECK(is_valid(collective, choice.algorithm, commutative));
          }
        }
      }
    }
  }
}

TEST_CASE("every rule names an algorithm that its collective has", "[collectives][tuning]") {
  for (const TuningRule& rule : tuning_table()) {
    Question at_best{rule.collective};
    at_best.one_host = rule.reach == Reach::one_host;
    at_best.hosts = at_best.hosts_in_order = at_best.hosts_alike = rule.reach == Reach::hosts;
    CHECK(is_valid(at_best, rule.choice.algorithm));
    CHECK(rule.ranks_from <= rule.ranks_to);
  }
  for (const Collective collective : kCollectives) CHECK(is_valid(collective, algorithms_of(collective)[0], false));
}

TEST_CASE("on devices one rank does all for all, and chunks are long, unless one's own rules say otherwise",
          "[collectives][tuning]") {
  constexpr std::uint64_t kLong = 64U << 20U;
  constexpr std::size_t kChunk = 64U << 10U;
  for (const Collective collective : {Collective::all_reduce, Collective::reduce}) {
    Question question{collective, kLong, 4};
    question.one_host = question.on_device = true;
    CHECK(choose(question).algorithm == Algorithm::leader);
    CHECK(choose(question, Algorithm::direct).algorithm == Algorithm::direct);
    CHECK(choose(question, Algorithm::ring).chunk_bytes == std::size_t{4} << 20U);
    CHECK(choose(question, Algorithm::ring, Algorithm::automatic, kChunk).chunk_bytes == kChunk);
    const TuningRule direct{collective, kAnyBytes, 2, kAnyRanks, Crowd::any, {Algorithm::direct, 0}};
    const TuningRule ring{collective, kAnyBytes, 2, kAnyRanks, Crowd::any, {Algorithm::ring, kChunk}};
    CHECK(choose(question, Algorithm::automatic, Algorithm::automatic, 0, {{direct}}).algorithm == Algorithm::direct);
    CHECK(choose(question, Algorithm::ring, Algorithm::automatic, 0, {{direct, ring}}).chunk_bytes == kChunk);
    question.one_host = false;
    CHECK(choose(question).chunk_bytes == std::size_t{4} << 20U);
    question.on_device = false;
    CHECK(choose(question).chunk_bytes == kChunk);
  }
  for (const Collective collective : kCollectives) {
    Question question{collective, kLong, 4};
    question.one_host = question.on_device = true;
    const bool has_buffers = collective != Collective::barrier;
    CHECK((choose(question).algorithm == Algorithm::leader) == has_buffers);
  }
  // Nobody knows what all give each other.
  Question question{Collective::all_to_all, kLong, 4};
  question.one_host = question.on_device = question.by_counts = true;
  CHECK(choose(question).algorithm == Algorithm::pairwise);
}

TEST_CASE("blocks are fetched out of the host's memory alone", "[collectives][tuning]") {
  Question question{Collective::scatter, 64U << 20U, 4};
  question.one_host = true;
  CHECK(choose(question).algorithm == Algorithm::fetched);
  question.on_device = true;
  CHECK(choose(question).algorithm == Algorithm::leader);
  CHECK_THROWS_WITH(choose(question, Algorithm::fetched),
                    ContainsSubstring("scatter in the memory of devices has no algorithm fetched, wanted tree, linear, "
                                      "direct"));
  question.collective = Collective::all_gather;
  CHECK(choose(question).algorithm == Algorithm::leader);
  CHECK_FALSE(is_valid(question, Algorithm::adaptive));
  question.on_device = false;
  CHECK(choose(question).algorithm == Algorithm::adaptive);
}

TEST_CASE("all_to_all by counts has no algorithm that must know what others send each other", "[collectives][tuning]") {
  Question question{Collective::all_to_all, 0, 4, true};
  CHECK(choose(question).algorithm == Algorithm::linear);
  question.by_counts = true;
  CHECK(choose(question).algorithm == Algorithm::pairwise);
  CHECK(choose(question, Algorithm::automatic, Algorithm::linear).algorithm == Algorithm::pairwise);
  CHECK_THROWS_WITH(choose(question, Algorithm::linear),
                    ContainsSubstring("all_to_all by counts has no algorithm linear, wanted pairwise"));
  question.one_host = true;
  CHECK(choose(question).algorithm == Algorithm::direct);
  CHECK_THROWS_WITH(choose(question, Algorithm::fetched),
                    ContainsSubstring("all_to_all by counts has no algorithm fetched, wanted pairwise, direct"));
}

TEST_CASE("two levels are possible on several hosts, in rank order where that matters", "[collectives][tuning]") {
  for (const Collective collective : kCollectives) {
    for (const bool commutative : {false, true}) {
      Question question{collective, 8, 4, false, commutative};
      CHECK_FALSE(is_valid(question, Algorithm::two_level));
      question.hosts = true;
      const bool any_order =
          collective == Collective::barrier || collective == Collective::broadcast ||
          (commutative && (collective == Collective::all_reduce || collective == Collective::reduce));
      CHECK(is_valid(question, Algorithm::two_level) == any_order);
      CHECK(is_valid(question, choose(question).algorithm));
      question.hosts_in_order = true;
      CHECK(is_valid(question, Algorithm::two_level) == (collective != Collective::all_to_all));
      CHECK(is_valid(question, choose(question).algorithm));
      question.hosts_alike = true;
      CHECK(is_valid(question, Algorithm::two_level));
      question.by_counts = true;
      CHECK(is_valid(question, Algorithm::two_level) == (collective != Collective::all_to_all));
    }
  }
}

TEST_CASE("what the call asks for wins, then what the user prefers, where it is possible", "[collectives][tuning]") {
  const Question question{Collective::all_reduce, 64, 4, false, true};
  CHECK(choose(question, Algorithm::tree, Algorithm::ring).algorithm == Algorithm::tree);
  CHECK(choose(question, Algorithm::automatic, Algorithm::ring).algorithm == Algorithm::ring);
  CHECK(choose(question, Algorithm::automatic, Algorithm::bruck).algorithm == choose(question).algorithm);
  const Question ordered{Collective::all_reduce, 64, 4, false, false};
  CHECK(choose(ordered, Algorithm::automatic, Algorithm::ring).algorithm != Algorithm::ring);
}

TEST_CASE("a chunk size of the call replaces the table's", "[collectives][tuning]") {
  const Question question{Collective::all_reduce, std::uint64_t{1} << 26U, 4, false, true};
  CHECK(choose(question).chunk_bytes > 0);
  CHECK(choose(question, Algorithm::automatic, Algorithm::automatic, 4096).chunk_bytes == 4096);
  // An algorithm where the table would not take it still gets chunks.
  CHECK(choose(question, Algorithm::tree).chunk_bytes > 0);
}

TEST_CASE("an algorithm that cannot do it is refused with the ones that can", "[collectives][tuning]") {
  CHECK_THROWS_WITH(choose({Collective::broadcast, 8, 4, false, true}, Algorithm::bruck),
                    ContainsSubstring("broadcast has no algorithm bruck, wanted tree, chain, linear"));
  try {
    choose({Collective::all_reduce, 8, 4, false, false}, Algorithm::ring);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::invalid_argument);
    CHECK_THAT(std::string(error.what()), ContainsSubstring("does not commute"));
    CHECK_THAT(std::string(error.what()), ContainsSubstring("wanted recursive_doubling, tree, linear, double_star"));
  }
}

TEST_CASE("the user's own rules come before the table, where they can answer", "[collectives][tuning]") {
  const auto own = parse_tuning_rules(
      "all_reduce 1K 4 any any ring 8K\n"
      "all_reduce any 2-any any any chain whole\n",
      "own");
  const auto chosen = [&](const Question& question, Algorithm asked = Algorithm::automatic) {
    return choose(question, asked, Algorithm::automatic, 0, own);
  };
  const Question question{Collective::all_reduce, 64, 4, false, true};
  CHECK(chosen(question).algorithm == Algorithm::ring);
  CHECK(chosen(question).chunk_bytes == 8192);
  CHECK(chosen({Collective::all_reduce, 2048, 4, false, true}).algorithm == Algorithm::chain);
  CHECK(chosen({Collective::all_reduce, 64, 4, false, false}).algorithm == Algorithm::chain);
  CHECK(chosen(question, Algorithm::tree).algorithm == Algorithm::tree);
  const Question other{Collective::barrier, 0, 4};
  CHECK(chosen(other).algorithm == choose(other).algorithm);
}
