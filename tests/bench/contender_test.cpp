// How the other libraries are started, where all of them are there: programs of their names that do nothing.

#include "bench/compare/contender.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace rondo::bench;
using Catch::Matchers::EndsWith;
using rondo::Crowd;

namespace {

/// The folder that PATH names while it lives, and nothing else.
class Programs {
 public:
  Programs() { ::setenv("PATH", (directory_ / "").c_str(), 1); }
  ~Programs() { ::setenv("PATH", before_.c_str(), 1); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  void add(const std::string& name, const std::string& says = "") const {
    const std::string path = directory_ / name;
    std::ofstream(path) << "#!/bin/sh\nprintf %s '" << says << "'\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

 private:
  TemporaryDirectory directory_;
  std::string before_ = std::getenv("PATH");
};

const char* text_of(Crowd crowd) {
  if (crowd == Crowd::any) return "";
  return crowd == Crowd::fits ? ", fits" : ", oversubscribed";
}

/// As `compare` names them, without the folders of the programs.
std::vector<std::string> commands(const std::string& peer, Path path) {
  std::vector<std::string> texts;
  for (const Contender& one : find_contenders({path}, {peer}).contenders) {
    if (one.name != peer) continue;
    Command command = one.command;
    for (std::string& word : command.words) {
      if (word.front() == '/') word = std::filesystem::path(word).filename();
    }
    texts.push_back(fmt::format("{}{}: {}", one.variant, text_of(one.made_for), command.text()));
  }
  return texts;
}

using Texts = std::vector<std::string>;

/// Who is left out, and why.
Texts absences(const std::string& peer, Path path) {
  Texts texts;
  for (const Absence& one : find_contenders({path}, {peer}).absent) texts.push_back(one.name + ": " + one.why);
  return texts;
}

}  // namespace

TEST_CASE("Open MPI is started as it is fastest: yielding where ranks are many, with what it has for one host",
          "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "mpirun.openmpi", "openmpi_loop"}) programs.add(name);
  const std::string run = "mpirun.openmpi --allow-run-as-root --oversubscribe ";
  const std::string yield = "--mca mpi_yield_when_idle 1 ", loop = "-n RANKS openmpi_loop";
  const Texts plain{"default: " + run + loop, "yield, oversubscribed: " + run + yield + loop};
  CHECK(commands("openmpi", Path::shm) == plain);
  CHECK(commands("openmpi", Path::untold) == plain);

  const std::string tcp = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo ";
  CHECK(commands("openmpi", Path::tcp) ==
        Texts{"default: " + run + tcp + loop, "yield, oversubscribed: " + run + tcp + yield + loop});

  CHECK(absences("openmpi", Path::tcp).empty());
  CHECK(absences("openmpi", Path::shm) ==
        Texts{"openmpi (xhc): ompi_info, which tells whether there is xhc, is not on PATH",
              "openmpi (sm): ompi_info, which tells whether there is sm, is not on PATH"});
  programs.add("ompi_info", "MCA coll: smart (MCA v2.1.0)");
  CHECK(commands("openmpi", Path::shm) == plain);
  CHECK(absences("openmpi", Path::untold) == Texts{"openmpi (xhc): ompi_info names no component coll: xhc",
                                                   "openmpi (sm): ompi_info names no component coll: sm"});
  programs.add("ompi_info", "MCA coll: xhc (MCA v2.1.0), MCA coll: sm (MCA v2.1.0)");
  const std::string xhc = "--mca coll_xhc_priority 100 ", sm = "--mca coll_sm_priority 100 ";
  Texts all = plain;
  all.push_back("xhc: " + run + xhc + loop);
  all.push_back("xhc+yield, oversubscribed: " + run + xhc + yield + loop);
  all.push_back("sm, fits: " + run + sm + loop);
  CHECK(commands("openmpi", Path::shm) == all);
  CHECK(absences("openmpi", Path::shm).empty());
}

TEST_CASE("MPICH is started as it is fastest: with what it has for many ranks", "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "mpirun.mpich", "mpich_loop"}) programs.add(name, "there");
  const std::string run = "mpirun.mpich -n RANKS mpich_loop";
  const std::string yield = "MPIR_CVAR_POLLS_BEFORE_YIELD=1 ";
  const std::string throttle =
      "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1 " + yield;
  CHECK(commands("mpich", Path::shm) == Texts{"default: " + run, "yield, oversubscribed: " + yield + run,
                                              "throttle, oversubscribed: " + throttle + run});
  const std::string tcp = "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=lo FI_PROVIDER=tcp FI_TCP_IFACE=lo ";
  CHECK(commands("mpich", Path::tcp) == Texts{"default: " + tcp + run, "yield, oversubscribed: " + tcp + yield + run,
                                              "throttle, oversubscribed: " + tcp + throttle + run});
  CHECK(absences("mpich", Path::tcp).empty());
  programs.add("mpich_loop");
  CHECK(commands("mpich", Path::shm) == Texts{"default: " + run});
  CHECK(absences("mpich", Path::shm) == Texts{"mpich (yield): MPICH has no variable MPIR_CVAR_POLLS_BEFORE_YIELD",
                                              "mpich (throttle): MPICH has no variable "
                                              "MPIR_CVAR_CH4_PROGRESS_THROTTLE"});
}

TEST_CASE("a launcher called mpirun is whose it says it is", "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "mpich_loop", "openmpi_loop"}) programs.add(name, "there");
  programs.add("mpirun", "mpirun (Open MPI) 5");
  CHECK(commands("openmpi", Path::shm).front() ==
        "default: mpirun --allow-run-as-root --oversubscribe -n RANKS openmpi_loop");
  const Field field = find_contenders({Path::shm}, {"mpich"});
  REQUIRE(field.absent.size() == 1);
  CHECK(field.absent[0].why == "neither mpirun.mpich nor MPICH's mpirun is on PATH");
}

TEST_CASE("on devices rondo and Gloo are told so, and the others left out by name", "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "gloo_loop", "mpirun.openmpi", "openmpi_loop"}) programs.add(name);
  const Field field = find_contenders({Path::untold}, {"openmpi", "gloo", "sockets"}, BufferPlace::device);
  REQUIRE(field.contenders.size() == 2);
  CHECK(field.contenders[0].name == "rondo");
  CHECK(field.contenders[1].name == "gloo");
  for (const Contender& one : field.contenders) CHECK_THAT(one.command.text(), EndsWith(" --device cuda"));
  REQUIRE(field.absent.size() == 2);
  CHECK(field.absent[0].name == "openmpi");
  CHECK(field.absent[1].name == "sockets");
  CHECK(field.absent[0].why == "its loops have no buffers in the memory of devices");
}

TEST_CASE("torch is compared on devices alone, where python3 has it, in what its Gloo backend does there", "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "torch_loop.py"}) programs.add(name);
  const auto on_devices = [] { return find_contenders({Path::untold}, {"torch"}, BufferPlace::device); };
  CHECK(on_devices().absent.at(0).why == "python3 has no torch");
  programs.add("python3", "False");
  CHECK(on_devices().absent.at(0).why == "python3 has no torch");
  programs.add("python3", "True\n");
  const Field field = on_devices();
  REQUIRE(field.contenders.size() == 2);
  CHECK_THAT(field.contenders[1].command.text(), EndsWith("torch_loop.py -n RANKS --device cuda"));
  CHECK(field.contenders[1].has({.operation = Operation::broadcast}));
  CHECK(!field.contenders[1].has({.operation = Operation::latency}));
  CHECK_THROWS_AS(find_contenders({Path::untold}, {"torch"}), UsageError);
}

TEST_CASE("Gloo has TCP alone, bare sockets and bare memory their own path", "[bench]") {
  const Programs programs;
  for (const char* name : {"rondo-run", "gloo_loop"}) programs.add(name);
  CHECK(commands("gloo", Path::tcp) == Texts{"default: gloo_loop -n RANKS"});
  CHECK(commands("gloo", Path::untold) == Texts{"default: gloo_loop -n RANKS"});
  CHECK(commands("gloo", Path::shm).empty());
  CHECK(commands("sockets", Path::tcp) == Texts{"bare: bench_contender_test raw loops -n RANKS"});
  CHECK(commands("sockets", Path::shm).empty());
  CHECK(commands("memory", Path::shm) == Texts{"bare: bench_contender_test raw memory-loops -n RANKS"});
}

TEST_CASE("what is made for more ranks than cores, or for no more, is not run with others", "[bench]") {
  Contender contender;
  CHECK((contender.is_made_for(2, 2) && contender.is_made_for(3, 2)));
  contender.made_for = Crowd::fits;
  CHECK((contender.is_made_for(2, 2) && !contender.is_made_for(3, 2)));
  contender.made_for = Crowd::oversubscribed;
  CHECK((!contender.is_made_for(2, 2) && contender.is_made_for(3, 2)));
}
