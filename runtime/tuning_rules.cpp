#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include <rondo/algorithms.hpp>
#include <rondo/error.hpp>
#include <rondo/size.hpp>
#include <rondo/tuning_rules.hpp>

#include "transport/printable.hpp"
#include "transport/system_errors.hpp"

namespace rondo {
namespace {

using detail::printable;
using detail::system_text;

constexpr std::size_t kLargestFile = std::size_t{1} << 20;

constexpr std::array<std::string_view, 3> kCrowds{"any", "fits", "oversubscribed"};
constexpr std::array<std::string_view, 3> kReaches{"any", "one_host", "hosts"};
constexpr std::array<std::string_view, 7> kColumns{"collective", "up_to", "ranks", "on", "crowd", "algorithm", "chunk"};

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (auto begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = line.find_first_not_of(kBlanks)) {
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
  return words;
}

template <typename Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// One line of a file.
class Line {
 public:
  Line(std::string_view file, int number, std::vector<std::string_view> words)
      : file_(file), number_(number), words_(std::move(words)) {}

  TuningRule rule() const {
    if (words_.size() != kColumns.size())
      reject("columns", std::to_string(words_.size()), fmt::format("{}: {}", kColumns.size(), listed(kColumns)));
    TuningRule rule{collective(), bytes(1, "any", kAnyBytes), 1, kAnyRanks, Crowd::any, {}};
    read_ranks(rule);
    rule.reach = static_cast<Reach>(one_of(3, kReaches));
    rule.crowd = static_cast<Crowd>(one_of(4, kCrowds));
    rule.choice = {algorithm(rule.collective), bytes(6, "whole", 0)};
    return rule;
  }

 private:
  [[noreturn]] void reject(std::string_view what, std::string_view got, std::string_view wanted) const {
    throw Error(Errc::bad_configuration, fmt::format("{}, line {}: {}: got \"{}\", wanted {}", file_, number_, what,
                                                     printable(got, 64), wanted));
  }
  [[noreturn]] void reject(std::size_t column, std::string_view wanted) const {
    reject(kColumns[column], words_[column], wanted);
  }

  Collective collective() const {
    const auto collective = parse_collective(words_[0]);
    if (collective && !algorithms_of(*collective).empty()) return *collective;
    std::string known;
    for (int i = 0; i <= static_cast<int>(Collective::allocate); ++i) {
      const auto one = static_cast<Collective>(i);
      if (!algorithms_of(one).empty()) known += (known.empty() ? "" : ", ") + std::string(to_string(one));
    }
    reject(0, "one of " + known);
  }

  Algorithm algorithm(Collective collective) const {
    const auto algorithm = parse_algorithm(words_[5]);
    if (algorithm && has_algorithm(collective, *algorithm)) return *algorithm;
    std::string known;
    for (int i = 0; i <= static_cast<int>(Algorithm::leader); ++i) {
      const auto one = static_cast<Algorithm>(i);
      if (has_algorithm(collective, one)) known += (known.empty() ? "" : ", ") + std::string(to_string(one));
    }
    reject(5, fmt::format("one of {}'s: {}", to_string(collective), known));
  }

  std::size_t bytes(std::size_t column, std::string_view name, std::size_t named) const {
    if (words_[column] == name) return named;
    try {
      return parse_size(words_[column]);
    } catch (const Error&) {
      reject(column, fmt::format("bytes like 4096 or 64K, or {}", name));
    }
  }

  template <std::size_t Size>
  std::size_t one_of(std::size_t column, const std::array<std::string_view, Size>& names) const {
    for (std::size_t i = 0; i < Size; ++i) {
      if (names[i] == words_[column]) return i;
    }
    reject(column, "one of " + listed(names));
  }

  /// "2", "3-8", "9-any".
  void read_ranks(TuningRule& rule) const {
    const std::string_view text = words_[2];
    const auto dash = text.find('-');
    const auto from = number(text.substr(0, dash));
    auto to = from;
    if (dash != std::string_view::npos)
      to = text.substr(dash + 1) == "any" ? std::optional(kAnyRanks) : number(text.substr(dash + 1));
    if (!from || !to || *from < 1 || *to < *from) reject(2, "ranks like 2, 3-8 or 9-any");
    rule.ranks_from = *from;
    rule.ranks_to = *to;
  }

  static std::optional<int> number(std::string_view text) {
    int number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
  }

  std::string_view file_;
  int number_;
  std::vector<std::string_view> words_;
};

std::string ranks_of(const TuningRule& rule) {
  if (rule.ranks_from == rule.ranks_to) return std::to_string(rule.ranks_from);
  return fmt::format("{}-{}", rule.ranks_from, rule.ranks_to == kAnyRanks ? "any" : std::to_string(rule.ranks_to));
}

}  // namespace

std::string_view to_string(Crowd crowd) noexcept { return kCrowds[static_cast<std::size_t>(crowd)]; }
std::string_view to_string(Reach reach) noexcept { return kReaches[static_cast<std::size_t>(reach)]; }

std::string print_tuning_rules(std::span<const TuningRule> rules) {
  constexpr auto kLine = "{:<16} {:>9} {:>10}  {:<8}  {:<14}  {:<18} {:>8}\n";
  std::string text =
      fmt::format(kLine, "# collective", kColumns[1], kColumns[2], kColumns[3], kColumns[4], kColumns[5], kColumns[6]);
  for (const TuningRule& rule : rules) {
    const std::string bytes = rule.up_to_bytes == kAnyBytes ? "any" : format_size(rule.up_to_bytes);
    const std::string chunk = rule.choice.chunk_bytes == 0 ? "whole" : format_size(rule.choice.chunk_bytes);
    text += fmt::format(kLine, to_string(rule.collective), bytes, ranks_of(rule), to_string(rule.reach),
                        to_string(rule.crowd), to_string(rule.choice.algorithm), chunk);
  }
  return text;
}

std::vector<TuningRule> parse_tuning_rules(std::string_view text, std::string_view name) {
  std::vector<TuningRule> rules;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto words = words_of(line);
    if (!words.empty()) rules.push_back(Line(name, number, std::move(words)).rule());
  }
  return rules;
}

std::vector<TuningRule> read_tuning_rules(const std::string& path) {
  if (path.empty()) return {};
  errno = 0;
  std::ifstream file(path);
  file.peek();  // a directory can be opened, too
  if (!file.is_open() || file.bad()) {
    throw Error(Errc::bad_configuration,
                fmt::format("RONDO_TUNING_FILE: cannot read {}: {}", printable(path), system_text(errno)));
  }
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestFile) {
    throw Error(
        Errc::bad_configuration,
        fmt::format("RONDO_TUNING_FILE: {} has more than {} bytes: wanted a table as `rondo-bench tune` writes it",
                    printable(path), kLargestFile));
  }
  return parse_tuning_rules(text, "RONDO_TUNING_FILE: " + std::string(printable(path)));
}

std::string tuning_summary(std::span<const TuningRule> rules) {
  if (rules.empty()) return "no rules";
  std::uint32_t checksum = 0x811c9dc5U;  // FNV-1a
  for (const char character : print_tuning_rules(rules))
    checksum = (checksum ^ static_cast<unsigned char>(character)) * 0x01000193U;
  return fmt::format("{} rule{} of checksum {:08x}", rules.size(), rules.size() == 1 ? "" : "s", checksum);
}

}  // namespace rondo
