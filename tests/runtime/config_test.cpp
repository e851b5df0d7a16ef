#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <rondo/config.hpp>
#include <rondo/error.hpp>

#include "runtime/log.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using rondo::Algorithm;
using rondo::Collective;
using rondo::Config;

namespace {

/// The text of the error that a variable with this value causes.
std::string rejection(const std::string& name, const std::string& value) {
  try {
    Config::from({{name, value}});
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::Errc::bad_configuration);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an empty environment gives the documented defaults", "[runtime][config]") {
  const Config config = Config::from({});
  CHECK(config.init_timeout == 300s);
  CHECK(config.timeout == 1800s);
  CHECK(config.unexpected_bytes == std::size_t{64} << 20);
  CHECK_FALSE(config.spin.has_value());
  CHECK(config.yield == 1ms);
  CHECK(config.transport == rondo::Transport::automatic);
  CHECK(config.log_level == rondo::LogLevel::warn);
  CHECK(config.handshake_timeout == 5s);
  CHECK(config.half_open_limit == 64);
  CHECK_FALSE(config.insecure);
  CHECK(config.warnings.empty());
}

TEST_CASE("every knob is read from its variable and printed as it would be read", "[runtime][config]") {
  const rondo::Environment environment{{"RONDO_INIT_METHOD", "tcp://[::1]:4711"},
                                       {"RONDO_MASTER_ADDR", "10.0.0.1"},
                                       {"RONDO_MASTER_PORT", "29500"},
                                       {"RONDO_INIT_TIMEOUT", "1.5"},
                                       {"RONDO_JOB_KEY_FILE", "/key"},
                                       {"RONDO_INSECURE", "1"},
                                       {"RONDO_TRANSPORT", "tcp"},
                                       {"RONDO_INTERFACE", "eth0"},
                                       {"RONDO_EAGER_LIMIT", "4K"},
                                       {"RONDO_UNEXPECTED_BYTES", "1G"},
                                       {"RONDO_TIMEOUT", "off"},
                                       {"RONDO_ALGORITHM", "all_reduce=ring,broadcast=tree"},
                                       {"RONDO_SPIN", "0"},
                                       {"RONDO_YIELD", "200us"},
                                       {"RONDO_CHUNK_BYTES", "64K"},
                                       {"RONDO_DETERMINISTIC", "1"},
                                       {"RONDO_LOG", "debug"}};
  const Config config = Config::from(environment);
  CHECK(config.init_timeout == 1500ms);
  CHECK(config.eager_limit == 4096);
  CHECK_FALSE(config.timeout.has_value());
  CHECK(config.spin == 0s);
  CHECK(config.yield == 200us);
  CHECK(config.algorithm_for(Collective::all_reduce) == Algorithm::ring);
  CHECK(config.algorithm_for(Collective::broadcast) == Algorithm::tree);
  CHECK(config.algorithm_for(Collective::barrier) == Algorithm::automatic);

  const std::string printed = to_string(config);
  for (const auto& [name, value] : environment) {
    const std::string shown = name == "RONDO_INIT_TIMEOUT" ? "1500ms" : value;
    CHECK_THAT(printed, ContainsSubstring(name + "=" + shown + "\n"));
  }
}

TEST_CASE("one algorithm alone stands for every collective", "[runtime][config]") {
  const Config config = Config::from({{"RONDO_ALGORITHM", "ring"}});
  CHECK(config.algorithm_for(Collective::all_gather) == Algorithm::ring);
  CHECK(config.algorithm_for(Collective::reduce) == Algorithm::ring);
}

TEST_CASE("what is said of one collective counts, before or after what is said of all", "[runtime][config]") {
  for (const char* text : {"ring,barrier=linear,reduce=tree", "barrier=linear,ring,reduce=tree"}) {
    const Config config = Config::from({{"RONDO_ALGORITHM", text}});
    CHECK(config.algorithm_for(Collective::barrier) == Algorithm::linear);
    CHECK(config.algorithm_for(Collective::reduce) == Algorithm::tree);
    CHECK(config.algorithm_for(Collective::broadcast) == Algorithm::ring);
    CHECK_THAT(to_string(config), ContainsSubstring("RONDO_ALGORITHM=ring,reduce=tree,barrier=linear\n"));
  }
  CHECK_THAT(rejection("RONDO_ALGORITHM", "allocate=ring"), ContainsSubstring("got \"allocate\", wanted one of"));
}

TEST_CASE("an algorithm of one collective is meant, one for all is a wish", "[runtime][config]") {
  const auto named = [](const char* text) {
    return Config::from({{"RONDO_ALGORITHM", text}}).algorithm_named[static_cast<std::size_t>(Collective::all_reduce)];
  };
  CHECK(named("ring,all_reduce=tree"));
  CHECK_FALSE(named("ring,broadcast=tree"));
  CHECK_FALSE(named("all_reduce=automatic"));
}

TEST_CASE("a bad value names the variable, what it says and what is wanted", "[runtime][config]") {
  CHECK_THAT(rejection("RONDO_EAGER_LIMIT", "12Q"),
             ContainsSubstring("RONDO_EAGER_LIMIT: ") && ContainsSubstring("\"12Q\"") && ContainsSubstring("64K"));
  CHECK_THAT(rejection("RONDO_TRANSPORT", "smoke"),
             ContainsSubstring("got \"smoke\", wanted one of auto, shm, unix, tcp"));
  CHECK_THAT(rejection("RONDO_LOG", "loud"), ContainsSubstring("error, warn, info, debug"));
  CHECK_THAT(rejection("RONDO_TIMEOUT", "soon"), ContainsSubstring("got \"soon\""));
  CHECK_THAT(rejection("RONDO_TIMEOUT", "-1"), ContainsSubstring("got \"-1\""));
  CHECK_THAT(rejection("RONDO_INIT_TIMEOUT", "off"), ContainsSubstring("got \"off\""));
  CHECK_THAT(rejection("RONDO_SPIN", "long"), ContainsSubstring("got \"long\", wanted seconds, 0 or more"));
  CHECK_THAT(rejection("RONDO_YIELD", "-1ms"), ContainsSubstring("got \"-1ms\""));
  CHECK_THAT(rejection("RONDO_MASTER_PORT", "70000"), ContainsSubstring("1 to 65535"));
  CHECK_THAT(rejection("RONDO_INSECURE", "maybe"), ContainsSubstring("1 or 0"));
  CHECK_THAT(rejection("RONDO_ALGORITHM", "spiral"),
             ContainsSubstring("got \"spiral\", wanted one of automatic, ring, tree, ") &&
                 ContainsSubstring(", two_level, leader; for one operation all_reduce=ring [bad_configuration]"));
  CHECK_THAT(rejection("RONDO_ALGORITHM", "all_reduce=spiral"), ContainsSubstring(", leader [bad_configuration]"));
  CHECK_THAT(rejection("RONDO_ALGORITHM", "all_redcue=ring"),
             ContainsSubstring("got \"all_redcue\", wanted one of all_reduce, reduce, ") &&
                 ContainsSubstring(", barrier [bad_configuration]"));
}

TEST_CASE("an unknown RONDO_ variable is one warning with the nearest known name", "[runtime][config]") {
  const Config config = Config::from({{"RONDO_EAGER_LIMT", "1"}, {"RONDO_RANK", "0"}, {"ROUND", "1"}});
  REQUIRE(config.warnings.size() == 1);
  CHECK_THAT(config.warnings[0], ContainsSubstring("RONDO_EAGER_LIMT") && ContainsSubstring("mean RONDO_EAGER_LIMIT?"));
}

TEST_CASE("two letters that changed places are one slip", "[runtime][config]") {
  const Config config = Config::from({{"RONDO_YEILD", "1ms"}});
  REQUIRE(config.warnings.size() == 1);
  CHECK_THAT(config.warnings[0], ContainsSubstring("did you mean RONDO_YIELD?"));
}

TEST_CASE("no name is suggested for an unknown variable that is near none", "[runtime][config]") {
  for (const char* name : {"RONDO_XYZZY", "RONDO_", "RONDO_A", "RONDO_CHECKPOINTS"}) {
    CHECK(Config::from({{name, "1"}}).warnings ==
          std::vector<std::string>{std::string(name) + ": nothing reads this variable"});
  }
}

TEST_CASE("an empty variable counts as not set, a deadline of 0 is an error that names off", "[runtime][config]") {
  CHECK(Config::from({{"RONDO_TIMEOUT", ""}}).timeout == 1800s);
  CHECK_THAT(
      rejection("RONDO_TIMEOUT", "0"),
      ContainsSubstring("RONDO_TIMEOUT: got \"0\", wanted seconds above 0, like 300 or 1.5, or 500ms, 5m, 1h, or "
                        "off for no deadline"));
  CHECK_THAT(rejection("RONDO_TIMEOUT", "0ms"), ContainsSubstring("got \"0ms\""));
  CHECK_THAT(rejection("RONDO_INIT_TIMEOUT", "0"), ContainsSubstring("5m, 1h [bad_configuration]"));
}

TEST_CASE("every variable of the configuration is documented once", "[runtime][config]") {
  std::set<std::string_view> names;
  for (const auto& variable : Config::variables()) {
    CHECK(names.insert(variable.name).second);
    CHECK_FALSE(variable.meaning.empty());
  }
}

TEST_CASE("durations have units, and off", "[runtime][config]") {
  CHECK(rondo::parse_duration("300") == 300s);
  CHECK(rondo::parse_duration("0.5") == 500ms);
  CHECK(rondo::parse_duration("500ms") == 500ms);
  CHECK(rondo::parse_duration("20us") == 20us);
  CHECK(rondo::parse_duration("5m") == 5min);
  CHECK(rondo::parse_duration("1h") == 1h);
  CHECK(rondo::parse_duration("off") == std::nullopt);
  for (const char* text : {"", "ten", "1 s", "1e9h", "nan", "inf", "-3", "9999999999999h"}) {
    INFO(text);
    CHECK_THROWS_AS(rondo::parse_duration(text), rondo::Error);
  }
}

TEST_CASE("a log line is one line, with the rank, at its level or above", "[runtime][log]") {
  std::vector<std::string> lines;
  const rondo::detail::Log log(rondo::LogLevel::info, 2,
                               [&](rondo::LogLevel, std::string_view line) { lines.emplace_back(line); });
  log.warn("peer {} is {}", 3, "slow\nrondo: rank 0: forged");
  log.debug("not shown");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "rondo: rank 2: peer 3 is slow\\x0arondo: rank 0: forged");
  const rondo::Error own(rondo::Errc::timed_out, "rank 0 sent nothing", {.rank = 2, .operation = "recv"});
  log.warn("nobody waited: {}", own.what());
  CHECK(lines[1] == "rondo: rank 2: nobody waited: recv: rank 0 sent nothing [timed_out]");
}
