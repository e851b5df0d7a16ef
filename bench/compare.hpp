#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::bench {

/// `rondo-bench compare [--rounds R]`: rondo over TCP, bare sockets, Open MPI and Gloo in turn, round after round, on
/// this machine; prints the medians over the rounds and rondo's goals. Returns the exit status: `kExitWrong` if a goal
/// was missed.
int compare_command(const std::vector<std::string>& arguments);

/// One cell of the comparison: what was measured with how many ranks.
struct Cell {
  std::string operation;
  int ranks = 2;
  std::size_t bytes = 0;

  friend auto operator<=>(const Cell&, const Cell&) = default;
};

/// Of each contender the p50 times in microseconds, one per round.
using Samples = std::map<std::string, std::map<Cell, std::vector<double>>, std::less<>>;

/// Adds what a table on standard output says: `bytes` and p50 of each line that is not a comment.
void read_table(std::string_view table, const std::string& operation, int ranks,
                std::map<Cell, std::vector<double>>& into);

/// Over the rounds; none where the contender was not measured.
std::optional<double> median(const Samples& samples, std::string_view contender, const Cell& cell);

/// rondo's time in `cell` is to be at most `limit` times that of `rival` in `rival_cell`.
struct Goal {
  std::string text;
  Cell cell;
  std::string rival;
  Cell rival_cell;
  double limit = 1;
};

std::vector<Goal> goals();

/// Lines for `goals()` and whether none was missed; those whose rival was not measured are neither met nor missed.
struct Verdict {
  std::string text;
  bool missed = false;
};
Verdict judge(const Samples& samples);

}  // namespace rondo::bench
