#include "runtime/identity.hpp"

#include <string>

#include <rondo/error.hpp>

#include "tests/support/catch.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::Environment;
using rondo::InitOptions;

namespace {

const ProcessFacts kProcess{1000, 77};

Identity who(const Environment& environment, const InitOptions& options = {}) {
  return identify(options, configure(options, environment), environment, kProcess);
}

/// The text of the error that this environment is.
std::string rejection(const Environment& environment, const InitOptions& options = {}) {
  try {
    const Identity identity = who(environment, options);
    return "accepted as rank " + std::to_string(identity.rank) + " of " + std::to_string(identity.size);
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::Errc::bad_configuration);
    return error.what();
  }
}

Environment operator+(Environment left, const Environment& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

const Environment kLauncher{{"RONDO_RANK", "2"},       {"RONDO_SIZE", "4"},     {"RONDO_LOCAL_RANK", "2"},
                            {"RONDO_LOCAL_SIZE", "4"}, {"RONDO_JOB_ID", "j-1"}, {"RONDO_ATTEMPT", "3"},
                            {"RONDO_CONTROL_FD", "9"}};
const Environment kTorchrun{{"RANK", "1"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "run"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "3"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                           {"PMIX_NAMESPACE", "68091905"},      {"PMIX_RANK", "1"}};
const Environment kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}};
const Environment kSlurm{{"SLURM_PROCID", "1"},        {"SLURM_NTASKS", "3"}, {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_LOCALID", "1"},       {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_NODES", "1"}};
const Environment kMaster{{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4711"}};

}  // namespace

TEST_CASE("a world of 1 where no launcher is visible", "[runtime][identity]") {
  const Identity alone = who({{"HOME", "/root"}, {"SLURM_JOB_ID", "7"}, {"MASTER_ADDR", "10.0.0.1"}});
  CHECK(alone.rank == 0);
  CHECK(alone.size == 1);
  CHECK(alone.source == "alone");
  CHECK(alone.meeting.kind == MeetingPoint::Kind::none);
}

TEST_CASE("rondo-run's ranks know all of themselves and meet by the descriptor", "[runtime][identity]") {
  const Identity me = who(kLauncher);
  CHECK(me.rank == 2);
  CHECK(me.size == 4);
  CHECK(me.local_rank == 2);
  CHECK(me.local_size == 4);
  CHECK(me.job_id == "j-1");
  CHECK(me.attempt == 3);
  CHECK(me.meeting.kind == MeetingPoint::Kind::descriptor);
  CHECK(me.meeting.descriptor == 9);
  InitOptions env;
  env.method = "env://";
  CHECK(who(kLauncher, env).meeting == me.meeting);
}

TEST_CASE("torchrun's ranks meet at the master's address", "[runtime][identity]") {
  const Identity me = who(kTorchrun);
  CHECK(me.rank == 1);
  CHECK(me.size == 4);
  CHECK(me.local_size == 2);
  CHECK(me.job_id == "run");
  CHECK(me.attempt == 2);
  CHECK(me.source == "torchrun");
  CHECK(to_string(me.meeting) == "tcp://127.0.0.1:29500");
}

TEST_CASE("where torchrun itself listens on the master's port, rank 0 takes the next", "[runtime][identity]") {
  CHECK(who(kTorchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}).meeting.port == 29501);
  CHECK(who(kTorchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).meeting.port == 29500);
  CHECK_THAT(rejection(kTorchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}),
             ContainsSubstring("65535"));
}

TEST_CASE("RONDO_MASTER_* wins over MASTER_*", "[runtime][identity]") {
  const auto own = Environment{{"RONDO_MASTER_ADDR", "::1"}, {"RONDO_MASTER_PORT", "5"}};
  CHECK(to_string(who(kTorchrun + own).meeting) == "tcp://[::1]:5");
}

TEST_CASE("Open MPI, MPICH and Slurm without an address meet by name on one host", "[runtime][identity]") {
  CHECK(who(kOpenMpi).rank == 1);
  CHECK(who(kOpenMpi).size == 3);
  CHECK(who(kOpenMpi).local_rank == 1);
  CHECK(to_string(who(kOpenMpi).meeting) == "unix:@rondo-1000-68091905-0");
  CHECK(who(kMpich).source == "PMI");
  CHECK(who(kMpich).size == 3);
  CHECK(to_string(who(kMpich).meeting) == "unix:@rondo-1000-pid-77-0");
  CHECK(who(kSlurm).size == 2);
  CHECK(who(kSlurm).local_rank == 1);
  CHECK(to_string(who(kSlurm).meeting) == "unix:@rondo-1000-7.0-0");
}

TEST_CASE("jobs whose ids differ late meet at different names, of a length that a socket takes",
          "[runtime][identity]") {
  const std::string alike(64, 'j');
  const auto name = [&](const std::string& job) {
    return who(kOpenMpi + Environment{{"RONDO_JOB_ID", job}}).meeting.path;
  };
  CHECK(name(alike) == "rondo-1000-" + alike + "-0");
  CHECK(name(alike + "1") != name(alike + "2"));
  CHECK(name(alike + "1") == name(alike + "1"));
  CHECK(name(alike + "1").starts_with("rondo-1000-jjjj"));
  CHECK(name(std::string(1000, 'j')).size() == name(alike).size());
}

TEST_CASE("a rank has the number on its host that the launcher says, or none", "[runtime][identity]") {
  const auto two_nodes = kSlurm + Environment{{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}} + kMaster;
  CHECK(who(two_nodes).local_rank == 1);
  CHECK_FALSE(who(Environment{{"RONDO_RANK", "1"}, {"RONDO_SIZE", "2"}} + kMaster).local_rank);
  InitOptions options;
  options.rank = 1;
  options.size = 2;
  CHECK_FALSE(who(kMaster, options).local_rank);
  CHECK_FALSE(who(Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).local_rank);
}

TEST_CASE("other launchers take an address too", "[runtime][identity]") {
  for (const auto& launcher : {kOpenMpi, kMpich, kSlurm}) {
    CHECK(to_string(who(launcher + kMaster).meeting) == "tcp://10.0.0.1:4711");
  }
}

TEST_CASE("ranks on several hosts need an address", "[runtime][identity]") {
  CHECK_THAT(rejection(kOpenMpi + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
             ContainsSubstring("several hosts") && ContainsSubstring("MASTER_ADDR"));
  CHECK_THAT(rejection(kSlurm + Environment{{"SLURM_STEP_NUM_NODES", "2"}}), ContainsSubstring("several hosts"));
}

TEST_CASE("a launcher that is visible but incomplete is an error with the variables seen", "[runtime][identity]") {
  CHECK_THAT(rejection({{"RONDO_RANK", "1"}}),
             ContainsSubstring("RONDO_SIZE is not set; variables seen: RONDO_RANK=1"));
  CHECK_THAT(rejection({{"RONDO_SIZE", "2"}}), ContainsSubstring("RONDO_RANK is not set"));
  CHECK_THAT(rejection({{"RONDO_CONTROL_FD", "5"}}), ContainsSubstring("RONDO_RANK is not set"));
  CHECK_THAT(rejection({{"WORLD_SIZE", "2"}}),
             ContainsSubstring("torchrun is visible but incomplete: RANK is not set"));
  CHECK_THAT(rejection({{"RANK", "0"}}), ContainsSubstring("WORLD_SIZE is not set"));
  CHECK_THAT(rejection({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), ContainsSubstring("no meeting point"));
  CHECK_THAT(rejection({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
             ContainsSubstring("MASTER_PORT is not set"));
  CHECK_THAT(rejection({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}),
             ContainsSubstring("MASTER_ADDR is not set"));
  CHECK_THAT(rejection({{"OMPI_COMM_WORLD_RANK", "1"}}), ContainsSubstring("OMPI_COMM_WORLD_SIZE is not set"));
  CHECK_THAT(rejection({{"PMI_RANK", "1"}}), ContainsSubstring("PMI_SIZE is not set"));
  CHECK_THAT(rejection({{"SLURM_PROCID", "1"}}),
             ContainsSubstring("SLURM_STEP_NUM_TASKS or SLURM_NTASKS or SLURM_NPROCS is not set"));
  CHECK_THAT(rejection({{"SLURM_STEP_ID", "1"}, {"SLURM_NTASKS", "2"}}), ContainsSubstring("SLURM_PROCID is not set"));
}

TEST_CASE("a meeting point without a rank is an error with the variables seen", "[runtime][identity]") {
  CHECK_THAT(rejection(kMaster),
             ContainsSubstring("wanted RANK and WORLD_SIZE, or RONDO_RANK and RONDO_SIZE; variables "
                               "seen: MASTER_ADDR=10.0.0.1, MASTER_PORT=4711"));
  CHECK_THAT(rejection({{"RONDO_MASTER_ADDR", "10.0.0.1"}}), ContainsSubstring("a meeting point is given"));
}

TEST_CASE("numbers that are none, or do not fit, are errors", "[runtime][identity]") {
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_RANK", "two"}}), ContainsSubstring("RONDO_RANK: got \"two\""));
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_RANK", "4"}}),
             ContainsSubstring("got rank 4, wanted 0 to 3 in a world of 4"));
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_LOCAL_SIZE", "5"}}),
             ContainsSubstring("got local size 5, wanted 1 to 4 in a world of 4"));
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_LOCAL_SIZE", "2"}}),
             ContainsSubstring("got local rank 2, wanted 0 to 1 in a local size of 2"));
  CHECK_THAT(rejection({{"RONDO_RANK", "0"}, {"RONDO_SIZE", "1"}, {"RONDO_LOCAL_RANK", "1"}}),
             ContainsSubstring("got local rank 1, wanted 0 to 0 in a world of 1"));
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_RANK", "-1"}}), ContainsSubstring("RONDO_RANK: got \"-1\""));
  CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_SIZE", "0"}}), ContainsSubstring("RONDO_SIZE: got \"0\""));
  for (const char* size : {"99999999999", "2147483647", "65537"}) {
    CHECK_THAT(rejection(kLauncher + Environment{{"RONDO_SIZE", size}}),
               ContainsSubstring(std::string("RONDO_SIZE: got \"") + size + "\", wanted a number from 1 to 65536"));
  }
  CHECK(who(kLauncher + Environment{{"RONDO_SIZE", "65536"}}).size == 65536);
  InitOptions many;
  many.rank = 0;
  many.size = 65537;
  CHECK_THAT(rejection({}, many), ContainsSubstring("got a world of 65537 ranks, wanted 1 to 65536"));
  CHECK_THAT(rejection(kTorchrun + Environment{{"MASTER_PORT", "0"}}), ContainsSubstring("MASTER_PORT: got \"0\""));
}

TEST_CASE("RONDO_* and torchrun that differ contradict each other", "[runtime][identity]") {
  CHECK_THAT(rejection(kTorchrun + kLauncher),
             ContainsSubstring("RONDO_* says rank 2 of 4, RANK and WORLD_SIZE say rank 1 of 4"));
  CHECK(who(kTorchrun + kLauncher + Environment{{"RANK", "2"}}).source == "rondo");
}

TEST_CASE("the first launcher that is visible counts", "[runtime][identity]") {
  CHECK(who(kTorchrun + kOpenMpi + kMpich + kSlurm).source == "torchrun");
  CHECK(who(kOpenMpi + kMpich + kSlurm).source == "Open MPI");
  CHECK(who(kMpich + kSlurm).source == "PMI");
}

TEST_CASE("what the program says in code wins over the environment", "[runtime][identity]") {
  InitOptions options;
  options.rank = 0;
  options.size = 2;
  options.method = "tcp://127.0.0.1:99";
  const Identity me = who(kTorchrun, options);
  CHECK(me.rank == 0);
  CHECK(me.size == 2);
  CHECK(me.source == "options");
  CHECK(me.meeting.port == 99);
  options.size.reset();
  CHECK_THAT(rejection(kTorchrun, options), ContainsSubstring("got rank alone"));
  options.size = 2;
  options.rank = 2;
  CHECK_THAT(rejection({}, options), ContainsSubstring("wanted 0 to 1"));
}

TEST_CASE("a method may carry rank and size", "[runtime][identity]") {
  const Environment url{{"RONDO_INIT_METHOD", "tcp://[::1]:99?rank=1&world_size=3"}};
  CHECK(who(url).rank == 1);
  CHECK(who(url).size == 3);
  CHECK(who(url).meeting.host == "::1");
  InitOptions options;
  options.method = "file:///tmp/meet?rank=1&world_size=2";
  CHECK(who({}, options).meeting.path == "/tmp/meet");
  options.rank = 0;
  options.size = 2;
  CHECK_THAT(rejection({}, options), ContainsSubstring("rank 0 in code, rank 1 in the method"));
}

TEST_CASE("a method without rank and size takes the launcher's, or is an error", "[runtime][identity]") {
  const Environment method{{"RONDO_INIT_METHOD", "file:///tmp/meet"}};
  const Identity me = who(kOpenMpi + method);
  CHECK(me.rank == 1);
  CHECK(me.meeting.kind == MeetingPoint::Kind::file);
  CHECK_THAT(rejection(method), ContainsSubstring("wanted rank and size"));
}

TEST_CASE("a method that is none is an error that shows it", "[runtime][identity]") {
  for (const char* text : {"udp://x:1", "tcp://", "tcp://host", "tcp://host:0", "tcp://::1:5", "file://", "file://x",
                           "tcp://h:1?rank=x", "tcp://h:1?ring=1", "env"}) {
    INFO(text);
    CHECK_THAT(rejection({{"RONDO_INIT_METHOD", text}}), ContainsSubstring("RONDO_INIT_METHOD: "));
  }
}

TEST_CASE("the timeout in code wins over the environment's", "[runtime][identity]") {
  InitOptions options;
  options.timeout = std::chrono::seconds(7);
  CHECK(configure(options, {{"RONDO_INIT_TIMEOUT", "9"}}).init_timeout == std::chrono::seconds(7));
  options.timeout.reset();
  CHECK(configure(options, {{"RONDO_INIT_TIMEOUT", "9"}}).init_timeout == std::chrono::seconds(9));
}

TEST_CASE("a time in code that is none is refused", "[runtime][identity]") {
  const auto wanted = [](const InitOptions& options, const std::string& text) {
    try {
      configure(options, {});
      FAIL("not refused: " + text);
    } catch (const rondo::Error& error) {
      CHECK(error.code() == rondo::Errc::invalid_argument);
      CHECK(error.what() == "rondo: init: the time " + text + ", wanted more than 0 [invalid_argument]");
    }
  };
  InitOptions options;
  options.timeout = std::chrono::seconds(-3);
  wanted(options, "to meet is -3 s");
  options.timeout.reset();
  options.config = rondo::Config();
  options.config->timeout = std::chrono::seconds(0);
  wanted(options, "of an operation is 0 s");
  options.config->timeout.reset();
  CHECK_FALSE(configure(options, {}).timeout);
}

TEST_CASE("an interface that does not exist is an error, whatever the transport", "[runtime][identity]") {
  const Environment environment{{"RONDO_INTERFACE", "wlan77"}, {"RONDO_TRANSPORT", "shm"}};
  CHECK_THAT(rejection(environment), ContainsSubstring("RONDO_INTERFACE: got \"wlan77\", wanted one of "));
  InitOptions options;
  options.config = rondo::Config::from(environment);
  CHECK_THAT(rejection({}, options), ContainsSubstring("RONDO_INTERFACE: "));
}
