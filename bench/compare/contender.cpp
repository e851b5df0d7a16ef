#include "bench/compare/contender.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/launch.hpp"
#include "bench/program.hpp"
#include "bench/raw/memory_calls.hpp"
#include "bench/tune/model_loops.hpp"

namespace rondo::bench {
namespace {

constexpr std::string_view kSockets = "sockets";
constexpr std::string_view kMemory = "memory";
constexpr std::string_view kModel = "model";

using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

bool contains(const std::vector<Path>& paths, Path path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

/// What a program prints; empty if it is not there or does not end well.
std::string output_of(const Words& words) {
  constexpr double kSeconds = 20;
  const Outcome outcome = run_program({words, {}}, kSeconds);
  return outcome.status == 0 ? outcome.output : "";
}

/// A launcher by the name that Debian gives it where several MPIs are installed, or one that is called mpirun and says
/// that it is the one.
std::optional<std::string> find_mpirun(const std::string& name, const std::string& word) {
  if (auto path = find_on_path(name)) return path;
  auto path = find_on_path("mpirun");
  return path && output_of({*path, "--version"}).find(word) != std::string::npos ? path : std::nullopt;
}

std::string no_loop(std::string_view name, std::string_view library) {
  return fmt::format(
      "{} is neither beside rondo-bench nor on PATH; a build that finds {} makes it in bench/peers of the build "
      "folder: "
      "run rondo-bench of that folder, or add bench/peers to PATH",
      name, library);
}

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// Collects one library's contenders on the paths that were asked for.
struct Collector {
  const std::vector<Path>& paths;
  BufferPlace place;
  Field& field;

  void add(std::string name, std::string variant, Path path, Command command, Crowd made_for = Crowd::any,
           bool (*has)(const Loop&) = nullptr) const {
    if (!contains(paths, path)) return;
    if (place == BufferPlace::device) command.words = std::move(command.words) + Words{"--device", "cuda"};
    field.contenders.push_back({std::move(name), std::move(variant), path, std::move(command), made_for, has});
  }
  /// Told no path, on one host, where it takes this one.
  void add_untold(const std::string& name, const std::string& variant, Path taken, const Command& command,
                  Crowd made_for = Crowd::any) const {
    for (const Path path : {taken, Path::untold}) add(name, variant, path, command, made_for);
  }
  void miss(std::string name, std::string why) const { field.absent.push_back({std::move(name), std::move(why)}); }
};

void add_open_mpi(const Collector& to) {
  const auto mpirun = find_mpirun("mpirun.openmpi", "Open MPI");
  const auto loop = find_companion("openmpi_loop", {"peers"});
  if (!loop) return to.miss("openmpi", no_loop("openmpi_loop", "Open MPI"));
  if (!mpirun) return to.miss("openmpi", "neither mpirun.openmpi nor Open MPI's mpirun is on PATH");

  const auto command = [&](const Words& options) {
    return Command{Words{*mpirun, "--allow-run-as-root", "--oversubscribe"} + options + Words{"-n", "RANKS", *loop},
                   {}};
  };
  const Words yielding{"--mca", "mpi_yield_when_idle", "1"};
  const Words tcp{"--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"};
  to.add_untold("openmpi", "default", Path::shm, command({}));
  to.add_untold("openmpi", "yield", Path::shm, command(yielding), Crowd::oversubscribed);
  to.add("openmpi", "default", Path::tcp, command(tcp));
  to.add("openmpi", "yield", Path::tcp, command(tcp + yielding), Crowd::oversubscribed);

  if (!contains(to.paths, Path::shm) && !contains(to.paths, Path::untold)) return;
  // Components for ranks of one host that it does not take by itself.
  struct Component {
    const char* name;
    Crowd made_for;
  };
  const auto info = find_on_path("ompi_info");
  const std::string components = info ? output_of({*info}) : "";
  for (const auto& [name, made_for] : {Component{"xhc", Crowd::any}, Component{"sm", Crowd::fits}}) {
    if (components.find(fmt::format("coll: {} ", name)) == std::string::npos) {
      to.miss(fmt::format("openmpi ({})", name),
              info ? fmt::format("ompi_info names no component coll: {}", name)
                   : fmt::format("ompi_info, which tells whether there is {}, is not on PATH", name));
      continue;
    }
    const Words first{"--mca", fmt::format("coll_{}_priority", name), "100"};
    to.add_untold("openmpi", name, Path::shm, command(first), made_for);
    if (made_for == Crowd::fits) continue;
    to.add_untold("openmpi", fmt::format("{}+yield", name), Path::shm, command(first + yielding),
                  Crowd::oversubscribed);
  }
}

void add_mpich(const Collector& to) {
  const auto mpirun = find_mpirun("mpirun.mpich", "HYDRA");
  const auto loop = find_companion("mpich_loop", {"peers"});
  if (!loop) return to.miss("mpich", no_loop("mpich_loop", "MPICH"));
  if (!mpirun) return to.miss("mpich", "neither mpirun.mpich nor MPICH's mpirun is on PATH");

  const auto command = [&](const Variables& environment) {
    return Command{{*mpirun, "-n", "RANKS", *loop}, environment};
  };
  // Without shared memory MPICH takes the network, in which UCX and libfabric are to take TCP.
  const Variables tcp{{"MPIR_CVAR_NOLOCAL", "1"},
                      {"UCX_TLS", "tcp,self"},
                      {"UCX_NET_DEVICES", "lo"},
                      {"FI_PROVIDER", "tcp"},
                      {"FI_TCP_IFACE", "lo"}};
  to.add_untold("mpich", "default", Path::shm, command({}));
  to.add("mpich", "default", Path::tcp, command(tcp));
  const Variables yield{{"MPIR_CVAR_POLLS_BEFORE_YIELD", "1"}};
  // MPICH's own tests with more ranks than cores take these together.
  const Variables throttle{{"MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"},
                           {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "1"},
                           {"MPIR_CVAR_POLLS_BEFORE_YIELD", "1"}};
  for (const auto& [name, variables] : {std::pair("yield", yield), std::pair("throttle", throttle)}) {
    const std::string& needed = variables.front().first;
    if (output_of({*loop, "--variable", needed}).empty()) {
      to.miss(fmt::format("mpich ({})", name), fmt::format("MPICH has no variable {}", needed));
      continue;
    }
    Variables with_tcp = tcp;
    with_tcp.insert(with_tcp.end(), variables.begin(), variables.end());
    to.add_untold("mpich", name, Path::shm, command(variables), Crowd::oversubscribed);
    to.add("mpich", name, Path::tcp, command(with_tcp), Crowd::oversubscribed);
  }
}

void add_gloo(const Collector& to) {
  const auto loop = find_companion("gloo_loop", {"peers"});
  if (!loop) return to.miss("gloo", no_loop("gloo_loop", "Gloo"));
  to.add_untold("gloo", "default", Path::tcp, {{*loop, "-n", "RANKS"}, {}});
  if (contains(to.paths, Path::shm)) to.miss("gloo on shm", "Gloo has no transport through shared memory");
}

bool has_torch_form(const Loop& loop) {
  return loop.operation == Operation::all_reduce || loop.operation == Operation::broadcast;
}

void add_torch(const Collector& to) {
  const auto loop = find_companion("torch_loop.py", {"peers"});
  if (!loop)
    return to.miss("torch", "torch_loop.py is neither beside rondo-bench, in peers of its folder, nor on PATH");
  const auto python = find_on_path("python3");
  const char* const asks = "import importlib.util; print(importlib.util.find_spec('torch') is not None)";
  if (!python || output_of({*python, "-c", asks}) != "True\n") return to.miss("torch", "python3 has no torch");
  for (const Path path : {Path::tcp, Path::untold}) {
    to.add("torch", "gloo", path, {{*python, *loop, "-n", "RANKS"}, {}}, Crowd::any, has_torch_form);
  }
}

void add_sockets(const Collector& to) {
  to.add(std::string(kSockets), "bare", Path::tcp, {{own_path(), "raw", "loops", "-n", "RANKS"}, {}});
}

void add_memory(const Collector& to) {
  to.add(std::string(kMemory), "bare", Path::shm, {{own_path(), "raw", "memory-loops", "-n", "RANKS"}, {}}, Crowd::any,
         has_bare_form);
}

void add_model(const Collector& to) {
  for (const Path path : {Path::shm, Path::tcp}) {
    to.add(std::string(kModel), "bound", path,
           {{own_path(), "raw", "model-loops", std::string(to_string(path)), "-n", "RANKS"}, {}}, Crowd::any,
           has_model);
  }
}

struct Peer {
  std::string_view name;
  void (*add)(const Collector&);
  // Where the buffers of its loops may be.
  bool on_host;
  bool on_devices;

  bool is_for(BufferPlace place) const { return place == BufferPlace::device ? on_devices : on_host; }
};
constexpr std::array kPeers{Peer{"openmpi", add_open_mpi, true, false}, Peer{"mpich", add_mpich, true, false},
                            Peer{"gloo", add_gloo, true, true},         Peer{"torch", add_torch, false, true},
                            Peer{kSockets, add_sockets, true, false},   Peer{kMemory, add_memory, true, false},
                            Peer{kModel, add_model, true, false}};

void add_peer(const Peer& peer, const Collector& to) {
  if (peer.is_for(to.place)) return peer.add(to);
  to.miss(std::string(peer.name), "its loops have no buffers in the memory of devices");
}

}  // namespace

bool is_bare(std::string_view name) { return name == kSockets || name == kMemory || name == kModel; }

std::string_view to_string(Path path) {
  switch (path) {
    case Path::shm: return "shm";
    case Path::tcp: return "tcp";
    default: return "default";
  }
}

Path parse_path(std::string_view option, const std::string& text, std::initializer_list<Path> known) {
  std::vector<std::string_view> names;
  for (const Path path : known) {
    if (to_string(path) == text) return path;
    names.push_back(to_string(path));
  }
  throw UsageError(fmt::format("{}: got '{}', wanted {}", option, text, fmt::join(names, ", ")));
}

Command Contender::command_for(int ranks, const LoopSettings& loops) const {
  Command filled = command;
  std::replace(filled.words.begin(), filled.words.end(), std::string("RANKS"), std::to_string(ranks));
  filled.words = filled.words + to_arguments(loops);
  return filled;
}

Command rondo_loops(const Variables& environment) {
  return {{find_launcher(), "-n", "RANKS", "--no-prefix", "--", own_path(), "loops"}, environment};
}

Field find_contenders(const std::vector<Path>& paths, const std::vector<std::string>& peers, BufferPlace place) {
  Field field;
  const Collector collector{paths, place, field};
  const bool allocate = place == BufferPlace::allocated;
  const auto loops = [allocate](const char* transport) {
    Command command = rondo_loops({{"RONDO_TRANSPORT", transport}});
    if (allocate) command.words.emplace_back("--allocate");
    return command;
  };
  const std::string variant = allocate ? "allocate" : "default";
  collector.add_untold(std::string(kRondo), variant, Path::shm, loops("auto"));
  collector.add(std::string(kRondo), variant, Path::tcp, loops("tcp"));
  for (const auto& name : peers) {
    const auto* const peer =
        std::find_if(kPeers.begin(), kPeers.end(), [&](const Peer& one) { return one.name == name; });
    if (peer == kPeers.end() || (place != BufferPlace::device && !peer->on_host))
      throw UsageError(fmt::format("--peers: got '{}', wanted {}", name, fmt::join(known_peers(place), ", ")));
    add_peer(*peer, collector);
  }
  return field;
}

std::vector<std::string> known_peers(BufferPlace place) {
  std::vector<std::string> names;
  for (const Peer& peer : kPeers) {
    if (peer.is_for(place)) names.emplace_back(peer.name);
  }
  return names;
}

}  // namespace rondo::bench
