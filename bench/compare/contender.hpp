#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/tuning_rules.hpp>

#include "bench/compare/child.hpp"
#include "bench/compare/loop.hpp"

namespace rondo::bench {

/// Which way the ranks' bytes take: through the host's memory, through TCP on loopback, or what each library takes that
/// is told nothing ("default").
enum class Path { shm, tcp, untold };
std::string_view to_string(Path path);
/// Throws UsageError, naming the option.
Path parse_path(std::string_view option, const std::string& text,
                std::initializer_list<Path> known = {Path::shm, Path::tcp});

inline constexpr std::string_view kRondo = "rondo";
/// What a path allows, not a library to be better than: bare sockets, bare lines of memory, the model.
bool is_bare(std::string_view name);

/// Where the buffers are.
enum class BufferPlace {
  host,
  allocated,  ///< rondo's are from rondo::allocate
  device,     ///< all are in the memory of the ranks' CUDA devices
};

/// One way to run one library on one path.
struct Contender {
  std::string name;     ///< "openmpi"
  std::string variant;  ///< "default", "yield"; of a library's variants the best counts, in each cell
  Path path = Path::shm;
  Command command;  ///< the word RANKS stands for their number; the loops come behind it
  Crowd made_for = Crowd::any;
  bool (*has)(const Loop&) = nullptr;  ///< which loops it can run; all

  bool is_made_for(int ranks, int cores) const {
    return made_for == Crowd::any || (made_for == Crowd::oversubscribed) == (ranks > cores);
  }
  Command command_for(int ranks, const LoopSettings& loops) const;
};

/// A library, or a variant of one, that is not compared, and why.
struct Absence {
  std::string name;
  std::string why;
};

struct Field {
  std::vector<Contender> contenders;  ///< rondo's first, on each path
  std::vector<Absence> absent;
};

/// What this machine has of the libraries named. Throws UsageError for a name it does not know, std::runtime_error
/// where rondo-run is missing.
Field find_contenders(const std::vector<Path>& paths, const std::vector<std::string>& peers,
                      BufferPlace place = BufferPlace::host);

/// Every peer that can be named with buffers there.
std::vector<std::string> known_peers(BufferPlace place = BufferPlace::host);

/// The whole of a rondo job that runs loops; RANKS stands for the number of ranks.
Command rondo_loops(const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace rondo::bench
