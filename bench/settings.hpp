#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/config.hpp>
#include <rondo/element_type.hpp>

#include "bench/operation.hpp"

namespace rondo::bench {

// What the exit status says.
inline constexpr int kExitGood = 0;
inline constexpr int kExitWrong = 1;   ///< a result was wrong (compare: a goal was missed)
inline constexpr int kExitUsage = 2;   ///< the command line asks for what cannot be
inline constexpr int kExitFailed = 3;  ///< the job could not start or broke off

/// What one run is to measure.
struct Settings {
  Operation operation = Operation::all_reduce;
  std::vector<std::size_t> sizes;  ///< bytes, ascending where made of -b, -e and -f
  ElementType type = ElementType::float32;
  ReduceKind reduce = ReduceKind::sum;
  int root = 0;
  Algorithm algorithm = Algorithm::automatic;
  std::size_t chunk_bytes = 0;
  std::optional<Transport> transport;
  std::optional<int> warmup;  ///< by size where not given
  std::optional<int> iterations;
  std::optional<double> seconds;
  int window = 64;  ///< bandwidth: messages in flight, fewer where they are large
  bool in_place = false;
  bool allocate = false;        ///< buffers from rondo::allocate
  bool device = false;          ///< buffers in the memory of each rank's CUDA device
  bool default_stream = false;  ///< on which calls of such buffers are then; else on one of their own
  bool check = true;
  std::string json;
  std::string csv;
  std::string plot;

  std::optional<int> ranks;   ///< to start; none: a launcher did
  bool started = false;       ///< by rondo-bench itself, for `ranks`
  std::string progress_path;  ///< terminal of the command that started this one
};

/// `what()` is one line for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Not an error: `what()` is the text that was asked for.
class HelpAsked : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the arguments after the program's name. Throws UsageError or HelpAsked.
Settings parse_settings(const std::vector<std::string>& arguments);

/// What depends on the number of ranks, once that is known. Throws UsageError.
void check_against(const Settings& settings, int ranks);

/// Whether the operation can be measured on buffers of devices. Throws UsageError.
void check_on_devices(Operation operation, bool allocate);

/// Whether a process can use memory of devices here, where it was asked for. Throws std::runtime_error.
void check_device(bool asked);

// What commands have in common. All throw UsageError.
Operation operation_named(const std::string& text);
/// Of --device: whether buffers are to be on devices.
bool device_named(const std::string& text);
/// "8", "64K", ...; `option` is what the user typed it for.
std::size_t size_of(const std::string& text, std::string_view option);
/// Of --sizes: ascending.
std::vector<std::size_t> sizes_named(const std::vector<std::string>& texts);

/// By messages and, after these, through shared memory.
std::vector<Algorithm> every_algorithm_of(Collective collective);

/// From `first` up to `last`, each `factor` times the one before. Throws UsageError.
std::vector<std::size_t> size_range(std::size_t first, std::size_t last, double factor);

int warmup_for(const Settings& settings, std::size_t bytes);
int iterations_for(const Settings& settings, std::size_t bytes);
/// Messages in flight of `bandwidth`: `window`, but no more than 64 MiB together.
int window_for(const Settings& settings, std::size_t bytes);

}  // namespace rondo::bench
