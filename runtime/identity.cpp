#include "runtime/identity.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/error.hpp>

#include "runtime/deadline_wait.hpp"
#include "runtime/endpoint.hpp"
#include "transport/keyed_hash.hpp"
#include "transport/printable.hpp"

namespace rondo::detail {
namespace {

/// The variables of one launcher. Alternatives stand in one list, the first one that is set counts.
struct Launcher {
  using Names = std::array<std::string_view, 3>;

  std::string_view name;
  Names rank;
  Names size;
  Names local_rank;
  Names local_size;
  Names job;
  Names attempt;
  Names hosts;  ///< on how many hosts the job runs
  Names signs;  ///< set by this launcher only: it is visible
};

constexpr Launcher kRondo{.name = "rondo",
                          .rank = {"RONDO_RANK"},
                          .size = {"RONDO_SIZE"},
                          .local_rank = {"RONDO_LOCAL_RANK"},
                          .local_size = {"RONDO_LOCAL_SIZE"},
                          .job = {"RONDO_JOB_ID"},
                          .attempt = {"RONDO_ATTEMPT"},
                          .hosts = {},
                          .signs = {"RONDO_RANK", "RONDO_SIZE", "RONDO_CONTROL_FD"}};
constexpr Launcher kTorchrun{.name = "torchrun",
                             .rank = {"RANK"},
                             .size = {"WORLD_SIZE"},
                             .local_rank = {"LOCAL_RANK"},
                             .local_size = {"LOCAL_WORLD_SIZE"},
                             .job = {"RONDO_JOB_ID", "TORCHELASTIC_RUN_ID"},
                             .attempt = {"RONDO_ATTEMPT", "TORCHELASTIC_RESTART_COUNT"},
                             .hosts = {},
                             .signs = {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"}};
constexpr Launcher kOpenMpi{.name = "Open MPI",
                            .rank = {"OMPI_COMM_WORLD_RANK"},
                            .size = {"OMPI_COMM_WORLD_SIZE"},
                            .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
                            .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                            .job = {"RONDO_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
                            .attempt = {"RONDO_ATTEMPT"},
                            .hosts = {},
                            .signs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};
constexpr Launcher kPmi{.name = "PMI",
                        .rank = {"PMI_RANK"},
                        .size = {"PMI_SIZE"},
                        .local_rank = {"MPI_LOCALRANKID"},
                        .local_size = {"MPI_LOCALNRANKS"},
                        .job = {"RONDO_JOB_ID", "PMI_JOBID", "SLURM_JOB_ID"},
                        .attempt = {"RONDO_ATTEMPT"},
                        .hosts = {"SLURM_STEP_NUM_NODES"},
                        .signs = {"PMI_RANK", "PMI_SIZE"}};
constexpr Launcher kSlurm{.name = "Slurm",
                          .rank = {"SLURM_PROCID"},
                          .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
                          .local_rank = {"SLURM_LOCALID"},
                          .local_size = {},
                          .job = {"RONDO_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID"},
                          .attempt = {"RONDO_ATTEMPT", "SLURM_RESTART_COUNT"},
                          .hosts = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"},
                          .signs = {"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}};
constexpr std::array kLaunchers{&kRondo, &kTorchrun, &kOpenMpi, &kPmi, &kSlurm};

/// Every error of this file shows what the process saw.
class Seen {
 public:
  explicit Seen(const Environment& environment) : environment_(environment) {}

  std::optional<std::string_view> get(std::string_view name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    return found->second;
  }

  /// The first of several names that is set, with its name.
  std::optional<std::pair<std::string_view, std::string_view>> first(std::span<const std::string_view> names) const {
    for (const auto name : names) {
      if (name.empty()) break;
      if (const auto value = get(name)) return std::pair{name, *value};
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> number(std::span<const std::string_view> names, std::int64_t least,
                                     std::int64_t most = std::numeric_limits<std::int32_t>::max()) const {
    const auto hit = first(names);
    if (!hit) return std::nullopt;
    std::int64_t value = 0;
    const auto [end, failed] = std::from_chars(hit->second.data(), hit->second.data() + hit->second.size(), value);
    if (failed != std::errc{} || end != hit->second.data() + hit->second.size() || value < least || value > most) {
      reject(fmt::format("{}: got \"{}\", wanted a number from {} to {}", hit->first, printable(hit->second, 64), least,
                         most));
    }
    return value;
  }

  [[noreturn]] void reject(const std::string& what) const {
    throw Error(Errc::bad_configuration, fmt::format("{}; variables seen: {}", what, list()));
  }

 private:
  std::string list() const {
    std::vector<std::string> seen;
    const auto add = [&](std::string_view name) {
      const auto value = get(name);
      if (!value) return;
      auto text = fmt::format("{}={}", name, printable(*value, 64));
      if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(std::move(text));
    };
    for (const Launcher* l : kLaunchers) {
      for (const auto* names :
           {&l->rank, &l->size, &l->local_rank, &l->local_size, &l->job, &l->attempt, &l->hosts, &l->signs}) {
        for (const auto name : *names) add(name);
      }
    }
    for (const auto name :
         {"RONDO_INIT_METHOD", "RONDO_MASTER_ADDR", "RONDO_MASTER_PORT", "MASTER_ADDR", "MASTER_PORT"}) {
      add(name);
    }
    return seen.empty() ? "none" : fmt::format("{}", fmt::join(seen, ", "));
  }

  const Environment& environment_;
};

bool visible(const Launcher& launcher, const Seen& seen) { return seen.first(launcher.signs).has_value(); }

std::string names_of(const Launcher::Names& names) {
  std::string text;
  for (const auto name : names) {
    if (!name.empty()) text += fmt::format("{}{}", text.empty() ? "" : " or ", name);
  }
  return text;
}

void check_range(std::string_view who, std::int64_t rank, std::int64_t size, const Seen& seen) {
  if (size < 1 || size > kMostRanks) {
    seen.reject(fmt::format("{}: got a world of {} ranks, wanted 1 to {}", who, size, kMostRanks));
  }
  if (rank < 0 || rank >= size) {
    seen.reject(fmt::format("{}: got rank {}, wanted 0 to {} in a world of {}", who, rank, size - 1, size));
  }
}

void check_local_range(std::string_view who, std::optional<std::int64_t> rank, std::optional<std::int64_t> size,
                       std::int64_t world_size, const Seen& seen) {
  if (size && *size > world_size) {
    seen.reject(
        fmt::format("{}: got local size {}, wanted 1 to {} in a world of {}", who, *size, world_size, world_size));
  }
  const std::int64_t most = size.value_or(world_size);
  if (rank && *rank >= most) {
    seen.reject(fmt::format("{}: got local rank {}, wanted 0 to {} in a {} of {}", who, *rank, most - 1,
                            size ? "local size" : "world", most));
  }
}

/// Of a job, for the name of a socket: two that are alike for long are still two.
std::string short_name(const std::string& job) {
  constexpr std::size_t kMostBytes = 64, kHashBytes = 8;
  if (job.size() <= kMostBytes) return job;
  std::string name = job.substr(0, kMostBytes - 1 - 2 * kHashBytes) + "-";
  const Hash whole = hash(std::as_bytes(std::span(job)));
  for (std::size_t i = 0; i < kHashBytes; ++i) name += fmt::format("{:02x}", whole[i]);
  return name;
}

std::string job_of(const Launcher& launcher, const Seen& seen) {
  const auto job = seen.first(launcher.job);
  if (!job) return "";
  // Several steps of one Slurm job may run at the same time: each is a job to us.
  const auto step = seen.get("SLURM_STEP_ID");
  return job->first.starts_with("SLURM_") && step ? fmt::format("{}.{}", job->second, *step) : std::string(job->second);
}

/// What the ranks' variables of `launcher` say.
Identity read(const Launcher& launcher, const Seen& seen) {
  const auto rank = seen.number(launcher.rank, 0);
  const auto size = seen.number(launcher.size, 1, kMostRanks);
  if (!rank || !size) {
    seen.reject(fmt::format("{} is visible but incomplete: {} is not set", launcher.name,
                            names_of(rank ? launcher.size : launcher.rank)));
  }
  check_range(launcher.name, *rank, *size, seen);
  Identity identity;
  identity.rank = static_cast<int>(*rank);
  identity.size = static_cast<int>(*size);
  const auto hosts = seen.number(launcher.hosts, 1);
  const auto local_rank = seen.number(launcher.local_rank, 0);
  const auto local_size = seen.number(launcher.local_size, 1);
  check_local_range(launcher.name, local_rank, local_size, *size, seen);
  if (local_rank) identity.local_rank = static_cast<int>(*local_rank);
  if (local_size) identity.local_size = static_cast<int>(*local_size);
  if (!local_size && hosts) identity.local_size = *hosts > 1 ? 1 : identity.size;
  identity.job_id = job_of(launcher, seen);
  identity.attempt = static_cast<std::uint32_t>(seen.number(launcher.attempt, 0).value_or(0));
  identity.source = launcher.name;
  return identity;
}

/// rank and size that a method names, or the program in code, over what the environment says.
void override_ranks(Identity& identity, std::optional<int> rank, std::optional<int> size, std::string_view who,
                    const Seen& seen) {
  if (!rank && !size) return;
  if (!rank || !size) seen.reject(fmt::format("{}: got {} alone, wanted rank and size", who, rank ? "rank" : "size"));
  check_range(who, *rank, *size, seen);
  if (identity.rank != *rank || identity.size != *size) {
    identity.local_rank.reset();
    identity.local_size.reset();
  }
  identity.rank = *rank;
  identity.size = *size;
  identity.source = who;
}

/// Two that say who this process is, and differ: nobody can know which one is meant.
void check_contradiction(const Identity& rondo, const Seen& seen) {
  if (!seen.first(kTorchrun.rank) || !seen.first(kTorchrun.size)) return;
  const Identity torchrun = read(kTorchrun, seen);
  if (torchrun.rank == rondo.rank && torchrun.size == rondo.size) return;
  seen.reject(fmt::format("contradiction: RONDO_* says rank {} of {}, RANK and WORLD_SIZE say rank {} of {}",
                          rondo.rank, rondo.size, torchrun.rank, torchrun.size));
}

/// RONDO_MASTER_*, else MASTER_*; nothing where no address is given at all.
std::optional<MeetingPoint> master_address(const Config& config, const Seen& seen) {
  const auto torch_addr = seen.get("MASTER_ADDR");
  const auto torch_port = seen.get("MASTER_PORT");
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::tcp;
  point.host = config.master_addr.empty() ? std::string(torch_addr.value_or("")) : config.master_addr;
  point.port = config.master_port;
  if (point.port == 0 && torch_port) {
    point.port = parse_port(*torch_port, "MASTER_PORT");
    // torchrun's own store listens there, and wants its ranks to be clients of it. The next port is rank 0's.
    if (seen.get("TORCHELASTIC_USE_AGENT_STORE") == "True") {
      if (point.port == 65535) seen.reject("MASTER_PORT: got 65535, which torchrun holds; wanted one below");
      ++point.port;
    }
  }
  if (point.host.empty() && point.port == 0) return std::nullopt;
  if (point.host.empty()) seen.reject("the meeting point is incomplete: MASTER_ADDR is not set");
  if (point.port == 0) seen.reject("the meeting point is incomplete: MASTER_PORT is not set");
  return point;
}

/// env://: the launcher's descriptor; an address; and where the launcher gives neither, a name on this host.
MeetingPoint meeting_of(const Identity& identity, const Config& config, const Seen& seen, const ProcessFacts& process) {
  MeetingPoint point;
  if (identity.source == kRondo.name) {
    const std::array<std::string_view, 1> name{"RONDO_CONTROL_FD"};
    if (const auto fd = seen.number(name, 0)) {
      point.kind = MeetingPoint::Kind::descriptor;
      point.descriptor = static_cast<int>(*fd);
      return point;
    }
  }
  if (identity.size == 1) return point;
  if (const auto address = master_address(config, seen)) return *address;
  const bool scheduler =
      identity.source == kOpenMpi.name || identity.source == kPmi.name || identity.source == kSlurm.name;
  if (!scheduler) {
    seen.reject(
        fmt::format("rank {} of {} ({}) has no meeting point: wanted MASTER_ADDR and MASTER_PORT, or "
                    "RONDO_INIT_METHOD",
                    identity.rank, identity.size, identity.source));
  }
  if (identity.local_size.value_or(identity.size) != identity.size) {
    seen.reject(
        fmt::format("{} ranks on several hosts ({} on this one) have no meeting point: wanted MASTER_ADDR and "
                    "MASTER_PORT, or RONDO_INIT_METHOD",
                    identity.size, *identity.local_size));
  }
  const std::string job = identity.job_id.empty() ? fmt::format("pid-{}", process.launcher) : identity.job_id;
  point.kind = MeetingPoint::Kind::unix_name;
  point.path = fmt::format("rondo-{}-{}-{}", process.uid, short_name(job), identity.attempt);
  return point;
}

void check_above_0(const char* what, Config::Duration duration) {
  if (duration > Config::Duration::zero()) return;
  throw Error(Errc::invalid_argument,
              fmt::format("the time {} is {}, wanted more than 0", what, seconds_text(duration)),
              {.operation = "init"});
}

}  // namespace

Config configure(const InitOptions& options, const Environment& environment) {
  Config config = options.config ? *options.config : Config::from(environment);
  if (options.timeout) config.init_timeout = *options.timeout;
  check_above_0("to meet", config.init_timeout);
  if (config.timeout) check_above_0("of an operation", *config.timeout);
  // Even where shared memory leaves it unused: a name that is wrong is a mistake.
  if (!config.interface.empty()) interface_address(config.interface);
  return config;
}

Identity identify(const InitOptions& options, const Config& config, const Environment& environment,
                  const ProcessFacts& process) {
  const Seen seen(environment);
  const bool in_code = !options.method.empty();
  Method method;
  method.from_environment = true;
  if (in_code || !config.init_method.empty()) {
    method = parse_method(in_code ? options.method : config.init_method, in_code ? "method" : "RONDO_INIT_METHOD");
  }
  if (options.rank && method.rank && options.rank != method.rank) {
    seen.reject(fmt::format("contradiction: rank {} in code, rank {} in the method", *options.rank, *method.rank));
  }
  if (options.size && method.size && options.size != method.size) {
    seen.reject(
        fmt::format("contradiction: size {} in code, world_size {} in the method", *options.size, *method.size));
  }
  const auto rank = options.rank ? options.rank : method.rank;
  const auto size = options.size ? options.size : method.size;

  Identity identity;
  identity.source = "alone";
  for (const Launcher* launcher : kLaunchers) {
    if (rank && size) break;
    if (!visible(*launcher, seen)) continue;
    identity = read(*launcher, seen);
    if (launcher == &kRondo) check_contradiction(identity, seen);
    break;
  }
  if (identity.source == "alone") {
    identity.job_id = job_of(kRondo, seen);
    identity.attempt = static_cast<std::uint32_t>(seen.number(kRondo.attempt, 0).value_or(0));
  }
  override_ranks(identity, rank, size, in_code || options.rank ? "options" : "RONDO_INIT_METHOD", seen);
  if (!method.from_environment && identity.source == "alone") {
    seen.reject(
        fmt::format("{} needs to know who this process is: wanted rank and size, in code or RONDO_RANK and "
                    "RONDO_SIZE",
                    to_string(method.point)));
  }
  const bool is_told_where =
      !config.master_addr.empty() || config.master_port != 0 || (seen.get("MASTER_ADDR") && seen.get("MASTER_PORT"));
  if (identity.source == "alone" && is_told_where) {
    seen.reject(
        "a meeting point is given, and not who this process is: wanted RANK and WORLD_SIZE, or RONDO_RANK and "
        "RONDO_SIZE");
  }
  if (method.from_environment) {
    identity.meeting = meeting_of(identity, config, seen, process);
  } else if (identity.size > 1) {
    identity.meeting = method.point;
  }
  return identity;
}

Identity identify(const InitOptions& options, const Config& config) {
  const Environment environment = process_environment();
  return identify(options, config, environment, process_facts(environment));
}

}  // namespace rondo::detail
