#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/export.hpp>

namespace rondo {

/// Variables by name. Everything that reads the environment reads it from one of these, so that tests need no
/// setenv.
using Environment = std::map<std::string, std::string, std::less<>>;

/// The environment of this process.
RONDO_EXPORT Environment process_environment();

enum class LogLevel : std::uint8_t { error, warn, info, debug };

/// What may carry the frames between two ranks.
enum class Transport : std::uint8_t {
  automatic,    ///< shared memory on one host (Unix sockets where that cannot be had), TCP otherwise
  shm,          ///< shared memory only
  unix_socket,  ///< Unix sockets only
  tcp,          ///< TCP only, on one host too
};

RONDO_EXPORT std::string_view to_string(LogLevel level) noexcept;
RONDO_EXPORT std::string_view to_string(Transport transport) noexcept;

/// Seconds from "300" or "1.5", or with a unit: "500ms", "20s", "5m", "1h". Nothing for "off".
/// Throws Error{invalid_argument} that shows the text and what is wanted.
RONDO_EXPORT std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
RONDO_EXPORT std::string format_duration(std::optional<std::chrono::nanoseconds> duration);

/// Every knob of the library, with its RONDO_* variable. (Who a rank is comes from other variables: see
/// `Config::variables`.) All ranks of a job should have the same values.
struct Config {
  using Duration = std::chrono::nanoseconds;
  static constexpr std::size_t kCollectives = static_cast<std::size_t>(Collective::allocate) + 1;

  // How the ranks meet.
  std::string init_method;                           ///< RONDO_INIT_METHOD: env://, tcp://host:port, file:///path
  std::string master_addr;                           ///< RONDO_MASTER_ADDR, before torchrun's MASTER_ADDR
  std::uint16_t master_port = 0;                     ///< RONDO_MASTER_PORT, before torchrun's MASTER_PORT; 0: not given
  Duration init_timeout{std::chrono::seconds(300)};  ///< RONDO_INIT_TIMEOUT: for all ranks to meet
  std::string job_key_file;                          ///< RONDO_JOB_KEY_FILE: 64 hex digits, mode 0600
  bool insecure = false;                             ///< RONDO_INSECURE=1: no key on addresses other than loopback
  Duration handshake_timeout{std::chrono::seconds(5)};  ///< for a stranger to authenticate itself (no variable)
  std::size_t half_open_limit = 64;                     ///< connections not authenticated yet (no variable)

  // How frames travel.
  Transport transport = Transport::automatic;  ///< RONDO_TRANSPORT: auto, shm, unix, tcp
  std::string interface;                       ///< RONDO_INTERFACE: name of a network interface, or its address
  std::size_t eager_limit = 64 << 10;          ///< RONDO_EAGER_LIMIT: longer messages wait for their receive
  std::size_t unexpected_bytes = 64 << 20;     ///< RONDO_UNEXPECTED_BYTES: memory for messages nobody asked for yet

  // How operations run.
  std::optional<Duration> timeout{std::chrono::seconds(1800)};  ///< RONDO_TIMEOUT: of an operation; above 0, or off
  std::array<Algorithm, kCollectives> algorithm{};   ///< RONDO_ALGORITHM: `ring`, or `all_reduce=ring,broadcast=tree`
  std::array<bool, kCollectives> algorithm_named{};  ///< by its collective's name: one that it has not is an error
  std::optional<Duration> spin;  ///< RONDO_SPIN: a wait polls for so long at the most; unset: what the cores allow
  Duration yield{std::chrono::milliseconds(1)};  ///< RONDO_YIELD: then it yields between polls for so long, then sleeps
  std::size_t chunk_bytes = 0;                   ///< RONDO_CHUNK_BYTES: of the pipeline; 0: the tuning table decides
  std::string tuning_file;                       ///< RONDO_TUNING_FILE: rules that come before the tuning table
  bool deterministic = false;                    ///< RONDO_DETERMINISTIC=1: Options::deterministic of every call

  LogLevel log_level = LogLevel::warn;  ///< RONDO_LOG: error, warn, info, debug

  /// One line for each RONDO_* variable that nothing reads, with the known name that is near, if one is.
  std::vector<std::string> warnings;

  Algorithm algorithm_for(Collective collective) const noexcept {
    return algorithm[static_cast<std::size_t>(collective)];
  }

  /// A variable that is empty counts as not set. Throws Error{bad_configuration}: the variable, what it says, what is
  /// wanted.
  RONDO_EXPORT static Config from(const Environment& environment);

  /// Every RONDO_* variable that the library or the launcher reads, with its meaning.
  struct Variable {
    std::string_view name;
    std::string_view meaning;
  };
  RONDO_EXPORT static std::vector<Variable> variables();
};

/// One line `RONDO_NAME=value` per variable, as `Config::from` would read it.
RONDO_EXPORT std::string to_string(const Config& config);

}  // namespace rondo
