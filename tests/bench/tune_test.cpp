#include <algorithm>
#include <cmath>
#include <fstream>

#include "bench/tune/candidates.hpp"
#include "bench/tune/explain_command.hpp"
#include "bench/tune/medians.hpp"
#include "bench/tune/message_protocol.hpp"
#include "bench/tune/rules.hpp"
#include "bench/tune/tune_command.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace rondo;
using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr Choice kRing{Algorithm::ring, 64 << 10};
constexpr Choice kTree{Algorithm::tree, 0};
constexpr Choice kLinear{Algorithm::linear, 0};

Question question_of(std::uint64_t bytes, int ranks, bool oversubscribed = false, bool one_host = false) {
  Question question;
  question.collective = Collective::all_reduce;
  question.bytes = bytes;
  question.ranks = ranks;
  question.oversubscribed = oversubscribed;
  question.one_host = one_host;
  return question;
}

std::string code_of(const std::vector<Answered>& answers) { return rules_to_code(rules_for(answers)); }

/// The questions that a table has to answer differently somewhere.
template <typename F>
void for_each_question(F&& with) {
  for (const int collective : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    for (const std::uint64_t bytes : {0, 8, 4096, 4097, 65536, 1 << 20, 16 << 20, 64 << 20}) {
      for (const int ranks : {1, 2, 3, 4, 8, 9, 16, 17, 64, 65, 2000}) {
        for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
          Question question = question_of(bytes, ranks, (flags & 1) != 0, (flags & 2) != 0);
          question.collective = static_cast<Collective>(collective);
          question.commutative = (flags & 4) == 0;
          with(question);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("the rule that explain names is the one that the library takes", "[bench][tune]") {
  const auto table = tuning_table();
  for_each_question([&](const Question& question) {
    const auto rule = std::find_if(table.begin(), table.end(), [&](const auto& one) { return answers(one, question); });
    REQUIRE(rule != table.end());
    const Choice choice = choose(question);
    CHECK(rule->choice.algorithm == choice.algorithm);
    CHECK(rule->choice.chunk_bytes == choice.chunk_bytes);
  });
}

TEST_CASE("every candidate can answer its question, and the table's choice is among the algorithms", "[bench][tune]") {
  for_each_question([](const Question& question) {
    const std::vector<Choice> candidates = candidates_for(question);
    const Choice chosen = choose(question);
    for (const Choice& choice : candidates) {
      CHECK(is_valid(question, choice.algorithm));
      CHECK((choice.chunk_bytes == 0 || choice == chosen || is_pipelined(question.collective, choice.algorithm)));
    }
    CHECK(std::any_of(candidates.begin(), candidates.end(), [&](const auto& one) {
      return is_pipelined(question.collective, chosen.algorithm) ? one.algorithm == chosen.algorithm : one == chosen;
    }));
  });
}

TEST_CASE("a whole message is asked for as one chunk", "[bench][tune]") {
  CHECK(loop_of(Operation::all_reduce, 1 << 20, {Algorithm::ring, 0}).chunk_bytes == 1 << 20);
  CHECK(loop_of(Operation::all_reduce, 1 << 20, kRing).chunk_bytes == 64 << 10);
  CHECK(loop_of(Operation::all_gather, 1 << 20, {Algorithm::bruck, 0}).chunk_bytes == 1 << 20);
  CHECK(loop_of(Operation::broadcast, 1 << 20, {Algorithm::fetched, 0}).chunk_bytes == 1 << 20);
  CHECK(loop_of(Operation::barrier, 0, {Algorithm::direct, 0}).chunk_bytes == 1);
}

TEST_CASE("candidates that were far behind the best are not measured again", "[bench][tune]") {
  const Question question = question_of(8, 2);
  Series measured;
  CoreDistance distance([] { return 0.05; });
  distance.settle();
  const std::vector<Loop> all = hopeful_loops(question, measured, distance);
  REQUIRE(all.size() == algorithms_of(Collective::all_reduce).size());
  for (const Loop& loop : all) measured.timings[loop] = {{10}, {30}};
  measured.timings[all[0]] = {{6}, {5}};
  measured.timings[all[1]] = {{11}, {12}};
  measured.timings[all[2]] = {{1}};
  measured.troubles[all[2]] = "over 10 s";
  const std::vector<Loop> some = hopeful_loops(question, measured, distance);
  CHECK(some.size() == all.size() - 1);
  CHECK(std::find(some.begin(), some.end(), all[1]) == some.end());
  measured.timings[all[3]] = {{100, 0.25}};  // its cores were apart
  CHECK(hopeful_loops(question, measured, distance) == some);
}

TEST_CASE("neighbours in size that agree are one rule, whose bound lies between the others", "[bench][tune]") {
  const std::vector<Answered> answers{
      {question_of(8, 2), {{kTree, 2}, {kRing, 5}}},
      {question_of(64, 2), {{kTree, 3}, {kRing, 5}}},
      {question_of(1024, 2), {{kTree, 9}, {kRing, 5}}},
      {question_of(4096, 2), {{kTree, 12}, {kRing, 7}}},
  };
  CHECK(code_of(answers) ==
        "    {C::all_reduce, 256, 2, 2, Crowd::fits, {tree, 0}},\n"
        "    {C::all_reduce, kAnyBytes, 2, 2, Crowd::fits, {ring, 64 * KiB}},\n");
}

TEST_CASE("a rule goes on as long as it is about as good as the best", "[bench][tune]") {
  const std::vector<Answered> close{{question_of(8, 2), {{kTree, 2}, {kRing, 5}}},
                                    {question_of(64, 2), {{kTree, 5.2}, {kRing, 5}}}};
  CHECK(rules_for(close).size() == 1);
  const std::vector<Answered> apart{{question_of(8, 2), {{kTree, 2}, {kRing, 5}}},
                                    {question_of(64, 2), {{kTree, 5.3}, {kRing, 5}}}};
  CHECK(rules_for(apart).size() == 2);
}

TEST_CASE("rules do not ask in which order they were measured", "[bench][tune]") {
  const std::vector<Answered> answers{{question_of(4096, 2), {{kTree, 12}, {kRing, 7}}},
                                      {question_of(8, 2), {{kTree, 2}, {kRing, 5}}}};
  CHECK(code_of(answers) == code_of({answers[1], answers[0]}));
}

TEST_CASE("numbers of ranks that agree are one rule, up to the last that was measured", "[bench][tune]") {
  const std::vector<Answered> answers{
      {question_of(8, 2), {{kTree, 2}}},
      {question_of(8, 4, true), {{kTree, 2}}},
      {question_of(8, 8, true), {{kTree, 2}}},
      {question_of(8, 16, true), {{kLinear, 2}}},
  };
  CHECK(code_of(answers) ==
        "    {C::all_reduce, kAnyBytes, 2, 2, Crowd::fits, {tree, 0}},\n"
        "    {C::all_reduce, kAnyBytes, 3, 8, Crowd::oversubscribed, {tree, 0}},\n"
        "    {C::all_reduce, kAnyBytes, 9, 16, Crowd::oversubscribed, {linear, 0}},\n");
}

TEST_CASE("what the table loses is its choice's time to the best's", "[bench][tune]") {
  const Question question = question_of(8, 2);
  const Choice chosen = choose(question);
  CHECK(loss_of_table({question, {{chosen, 3}, {kLinear, 2}}}) == 1.5);
  CHECK(loss_of_table({question, {{chosen, 2}, {kLinear, 3}}}) == 1.0);
  CHECK(loss_of_table({question, {{kLinear, 3}}}) == std::nullopt);
  Question shorter_than_chunk = question;
  shorter_than_chunk.collective = Collective::reduce;
  const Choice longer = choose(shorter_than_chunk);
  REQUIRE(longer.chunk_bytes > shorter_than_chunk.bytes);
  CHECK(loss_of_table({shorter_than_chunk, {{{longer.algorithm, 0}, 5}, {kTree, 4}}}) == 1.25);
}

TEST_CASE("medians that were written are read again", "[bench][tune]") {
  TemporaryDirectory directory;
  const std::vector<Answered> measured{{question_of(8, 4, true), {{kTree, 2.5}, {kRing, 3}}},
                                       {question_of(64, 2, false, true), {{choose(question_of(64, 2)), 4}}}};
  const std::string path = directory / "medians";
  std::ofstream file(path);
  write_medians(file, measured);
  file.close();
  const std::vector<Answered> read = read_medians(path);
  REQUIRE(read.size() == measured.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].microseconds == measured[i].microseconds);
    CHECK(read[i].question.collective == measured[i].question.collective);
    CHECK(read[i].question.bytes == measured[i].question.bytes);
    CHECK(read[i].question.ranks == measured[i].question.ranks);
    CHECK(read[i].question.oversubscribed == measured[i].question.oversubscribed);
    CHECK(read[i].question.one_host == measured[i].question.one_host);
  }
}

TEST_CASE("what is not of tune is refused with the file's name", "[bench][tune]") {
  TemporaryDirectory directory;
  const std::string path = directory / "medians";
  CHECK_THROWS_WITH(read_medians(path), "--from: cannot read " + path + ": No such file or directory");
  const auto refused = [&](const std::string& text) {
    std::ofstream(path) << text;
    try {
      read_medians(path);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK_THAT(refused("nonsense"), ContainsSubstring("--from: " + path + " is not what tune --json writes: "));
  CHECK_THAT(refused("{}"), ContainsSubstring("measured"));
  const auto one = [](const std::string& collective, const std::string& candidates) {
    return R"({"measured": [{"collective": ")" + collective +
           R"(", "bytes": 8, "ranks": 2, "oversubscribed": false, "one_host": true, "candidates": [)" + candidates +
           "]}]}";
  };
  const std::string ring = R"({"algorithm": "ring", "chunk_bytes": 0, "us": 1})";
  CHECK(refused(one("reduce", ring)) == "read");
  CHECK_THAT(refused(one("reducing", ring)), ContainsSubstring("no collective is called reducing"));
  CHECK_THAT(refused(one("reduce", "")), ContainsSubstring("reduce without candidates"));
  CHECK_THAT(refused(one("reduce", R"({"algorithm": "rung"})")), ContainsSubstring("no algorithm is called rung"));
  CHECK_THAT(refused(one("reduce", R"({"algorithm": "ring", "chunk_bytes": 0, "us": 0})")),
             ContainsSubstring("reduce in 0 us"));
}

TEST_CASE("the table is what was measured", "[bench][tune]") {
  const std::vector<Answered> answers = read_medians(RONDO_RESULTS "/epyc-tune.json");
  CHECK(worth_of_table(answers).questions == 486);
  CHECK(worth_of_table(answers).mean < 1.02);
  for (const Answered& answer : answers) {
    const Question& question = answer.question;
    INFO(to_string(question.collective) << " of " << question.bytes << ", " << question.ranks << " ranks, "
                                        << (question.one_host ? "shm" : "tcp"));
    // What takes less call after call does not always take less by itself: see collectives/tuning.cpp.
    const bool single = !question.one_host && question.oversubscribed &&
                        (question.collective == Collective::broadcast || question.collective == Collective::gather);
    CHECK(loss_of_table(answer).value_or(9) < (single ? 2 : 1.3));
  }
}

TEST_CASE("what the table is worth is the mean of its losses, and the worst", "[bench][tune]") {
  const Choice chosen = choose(question_of(8, 2));
  const std::vector<Answered> answers{{question_of(8, 2), {{chosen, 2}, {kLinear, 1}}},
                                      {question_of(64, 2), {{chosen, 8}, {kLinear, 1}}},
                                      {question_of(512, 2), {{kLinear, 1}}}};
  const Worth worth = worth_of_table(answers);
  CHECK(worth.questions == 2);
  CHECK(std::abs(worth.mean - 4) < 1e-12);
  CHECK(worth.most == 8);
  CHECK(worth.where.bytes == 64);
  CHECK(worth_of_table({}).questions == 0);
}

TEST_CASE("rules for ranks of one host come first", "[bench][tune]") {
  const std::vector<Answered> answers{{question_of(8, 2), {{kTree, 2}}},
                                      {question_of(8, 2, false, true), {{Choice{Algorithm::direct, 0}, 2}}}};
  CHECK(code_of(answers) ==
        "    {C::all_reduce, kAnyBytes, 2, 2, Crowd::fits, {direct, 0}, Reach::one_host},\n"
        "    {C::all_reduce, kAnyBytes, 2, 2, Crowd::fits, {tree, 0}},\n");
}

TEST_CASE("sizes that round to the same bytes are one question", "[bench][tune]") {
  TuningPlan plan;
  plan.operations = {Operation::all_gather, Operation::barrier};
  plan.sizes = {8, 16, 64};
  plan.cores = 2;
  const auto questions = questions_for(plan, Path::tcp, 8);
  REQUIRE(questions.size() == 3);
  CHECK(questions[0].bytes == 32);
  CHECK(questions[1].bytes == 64);
  CHECK(questions[0].oversubscribed);
  CHECK(questions[2].collective == Collective::barrier);
}

TEST_CASE("loops of different algorithms or chunks are in different jobs", "[bench][tune]") {
  const Loop tree{Operation::all_reduce, 64 << 10, Algorithm::tree, 4096};
  Loop longer = tree, whole = tree, ring = tree;
  longer.bytes = 1 << 20;
  whole.chunk_bytes = 0;
  ring.algorithm = Algorithm::ring;
  const auto jobs = jobs_of({tree, ring, longer, whole});
  CHECK(jobs.size() == 3);
  CHECK(jobs.at({Algorithm::tree, 4096}) == std::vector{tree, longer});
}

TEST_CASE("explain says what is chosen and by which rule", "[bench][tune]") {
  const Question question = question_of(64 << 10, 4, true);
  const std::string text = reason_text(question, Config{});
  CHECK_THAT(text, ContainsSubstring("chosen: " + choice_to_words(choose(question))));
  CHECK_THAT(text,
             ContainsSubstring("of the table, all_reduce up to 512K, 3 to 16 ranks that share cores: double_star"));

  Config config;
  config.algorithm.fill(Algorithm::ring);
  config.chunk_bytes = 4096;
  CHECK_THAT(reason_text(question, config), ContainsSubstring("chosen: ring, chunks of 4K"));
  CHECK_THAT(reason_text(question, config), ContainsSubstring("RONDO_ALGORITHM is ring; RONDO_CHUNK_BYTES is 4K"));

  TemporaryDirectory directory;
  config = Config{};
  config.tuning_file = directory / "rules";
  std::ofstream(config.tuning_file) << "all_reduce 1K any\n";
  CHECK_THROWS_WITH(reason_text(question, config), ContainsSubstring(config.tuning_file + ", line 1: columns"));
  std::ofstream(config.tuning_file) << "all_reduce 1K 4 any any ring whole\nall_reduce 64K 4 any any chain 8K\n";
  CHECK_THAT(reason_text(question, config), ContainsSubstring("chosen: chain, chunks of 8K"));
  CHECK_THAT(reason_text(question, config),
             ContainsSubstring("rule 2 of " + config.tuning_file + ", all_reduce up to"));
}

TEST_CASE("explain says how messages of which length go", "[bench][tune]") {
  const auto way = [](const MessageQuestion& question, const Config& config = {}) {
    const std::string text = message_text(question, config);
    return text.substr(0, text.find("\n\n"));
  };
  constexpr std::size_t KiB = 1024;
  CHECK_THAT(way({16 * KiB}),
             ContainsSubstring("chosen: eager") && ContainsSubstring("longer than 16K is better read"));
  CHECK_THAT(way({16 * KiB + 1}), ContainsSubstring("process_vm_readv") && ContainsSubstring("the back half"));
  CHECK_THAT(way({16 * KiB + 1, Path::shm, true}),
             ContainsSubstring("process_vm_readv") && !ContainsSubstring("the back half"));
  CHECK_THAT(way({128 * KiB, Path::shm, false, true}), ContainsSubstring("out of the sender's buffer, which it maps"));
  CHECK_THAT(way({64 * KiB, Path::tcp}), ContainsSubstring("chosen: eager") && ContainsSubstring("LIMIT is 64K"));
  CHECK_THAT(way({64 * KiB + 1, Path::tcp}), ContainsSubstring("chosen: rendezvous: sent into"));

  Config config;
  config.eager_limit = 100;
  CHECK_THAT(way({100}, config), ContainsSubstring("chosen: eager") && ContainsSubstring("RONDO_EAGER_LIMIT is 100"));
  CHECK_THAT(way({101}, config), ContainsSubstring("in pieces") && ContainsSubstring("RONDO_EAGER_LIMIT is 100"));
  CHECK_THAT(way({16 * KiB + 1}, config), ContainsSubstring("process_vm_readv"));
  CHECK_THAT(message_text({8}, Config{}),
             ContainsSubstring("forbidden or slow") && ContainsSubstring("over 64K      rendezvous: in pieces"));
}

TEST_CASE("explain says what determinism and allocated buffers change", "[bench][tune]") {
  Question question = question_of(1 << 20, 3);
  question.deterministic = true;
  const std::string text = reason_text(question, Config{});
  CHECK_THAT(text, ContainsSubstring("chosen: chain") && ContainsSubstring("not deterministic it would be ring"));
  question.one_host = true;
  CHECK_THAT(reason_text(question, Config{}), !ContainsSubstring("not deterministic"));

  CHECK_THAT(allocated_text(Operation::all_reduce, question, Algorithm::sliced), ContainsSubstring("combined where"));
  CHECK_THAT(allocated_text(Operation::all_reduce, question, Algorithm::ring), ContainsSubstring("no difference"));
  question.bytes = 3 * (32 << 10);
  CHECK_THAT(allocated_text(Operation::gather, question, Algorithm::direct), ContainsSubstring("read where they are"));
  question.bytes -= 3 * sizeof(float);
  CHECK_THAT(allocated_text(Operation::gather, question, Algorithm::direct),
             ContainsSubstring("no difference to less than 32K in a block"));
}

TEST_CASE("explain and tune refuse what cannot be", "[bench][tune]") {
  const auto explained = parse_explain_settings({"broadcast", "--size", "1M", "--ranks", "8", "--path", "tcp"});
  CHECK(explained.question.bytes == 1 << 20);
  CHECK_FALSE(explained.question.one_host);
  CHECK(parse_explain_settings({"barrier", "--share-cores"}).question.oversubscribed);
  CHECK_FALSE(parse_explain_settings({"barrier", "-n", "100", "--own-cores"}).question.oversubscribed);
  CHECK_THROWS_WITH(parse_explain_settings({"latency", "--measure"}),
                    "--measure: got it with latency, which rondo-bench latency measures");
  CHECK(parse_explain_settings({"all_reduce", "--deterministic"}).question.deterministic);
  CHECK_THROWS_WITH(parse_explain_settings({"broadcast", "--deterministic"}),
                    "--deterministic is for operations that combine, not broadcast");
  CHECK_THROWS_WITH(parse_explain_settings({"barrier", "--allocate"}),
                    "--allocate is for operations with buffers, not barrier");
  CHECK_THROWS_AS(parse_explain_settings({"barrier", "--ranks", "1"}), UsageError);
  CHECK_THROWS_AS(parse_explain_settings({}), UsageError);
  CHECK_THROWS_WITH(parse_explain_settings({"barrier", "--path", "udp"}), "--path: got 'udp', wanted shm, tcp");
  const Question on_hosts = parse_explain_settings({"barrier", "-n", "6", "--hosts", "3", "--own-cores"}).question;
  CHECK((on_hosts.hosts && on_hosts.hosts_in_order && !on_hosts.one_host));
  CHECK_FALSE(parse_explain_settings({"barrier", "-n", "6", "--hosts", "6"}).question.hosts);
  CHECK_THROWS_WITH(parse_explain_settings({"barrier", "-n", "6", "--hosts", "4"}),
                    "--hosts: got 4 for 6 ranks, wanted as many ranks on each");
  CHECK_THROWS_WITH(parse_explain_settings({"barrier", "-n", "6", "--hosts", "2", "--measure"}),
                    "--hosts: got it with --measure, which runs on this machine alone");
  CHECK_THROWS_WITH(parse_explain_settings({"barrier", "--size", "12Q"}),
                    "--size: got \"12Q\", wanted a whole number like 4096, 64K, 4M, 1G");

  const auto tuned = parse_tune_settings({"--ranks", "4,2", "--sizes", "64K,8"});
  CHECK(tuned.plan.ranks == std::vector{2, 4});
  CHECK(tuned.plan.sizes == std::vector<std::size_t>{8, 64 << 10});
  CHECK(tuned.plan.operations.size() == 9);
  CHECK(parse_tune_settings({"--from", "medians"}).from == "medians");
  CHECK_THROWS_WITH(parse_tune_settings({"--from", "a", "--rounds", "2"}), "--from excludes --rounds");
  CHECK_THROWS_WITH(parse_tune_settings({"--from", ""}), "--from: got nothing, wanted a file");
  CHECK_THROWS_WITH(parse_tune_settings({"--operations", "bandwidth"}), ContainsSubstring("has no algorithms"));
  CHECK_THROWS_AS(parse_tune_settings({"--ranks", "1"}), UsageError);
  CHECK_THROWS_WITH(parse_tune_settings({"--seconds", "0"}), "--seconds: got 0, wanted a positive number");
  CHECK_THROWS_WITH(parse_tune_settings({"--seconds", "inf"}), "--seconds: got inf, wanted a positive number");
}
