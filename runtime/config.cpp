#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <rondo/config.hpp>
#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "runtime/endpoint.hpp"
#include "transport/printable.hpp"

namespace rondo {
namespace {

using detail::printable;

/// One variable: how it is read into a Config, and how it is printed.
struct Knob {
  std::string_view name;
  std::string_view meaning;
  void (*read)(Config& config, std::string_view text);
  std::string (*print)(const Config& config);
};

[[noreturn]] void reject(std::string_view got, std::string_view wanted) {
  throw Error(Errc::invalid_argument, fmt::format("got \"{}\", wanted {}", printable(got, 64), wanted));
}

template <typename T, std::size_t N>
T one_of(std::string_view text, const std::array<T, N>& values) {
  std::string wanted;
  for (const T value : values) {
    if (text == to_string(value)) return value;
    wanted += (wanted.empty() ? "" : ", ") + std::string(to_string(value));
  }
  reject(text, "one of " + wanted);
}

bool parse_switch(std::string_view text) {
  if (text == "1" || text == "on" || text == "true") return true;
  if (text == "0" || text == "off" || text == "false") return false;
  reject(text, "1 or 0");
}

/// Nothing for what is no duration.
std::optional<Config::Duration> duration_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 60e9}, {"h", 3600e9}}};
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto scale = std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
  constexpr double century = 3.15e18;  // nanoseconds; more would not fit 63 bits
  if (failed != std::errc{} || scale == units.end() || !std::isfinite(number) || number < 0 ||
      number * scale->second > century) {
    return std::nullopt;
  }
  return Config::Duration(std::llround(number * scale->second));
}

Config::Duration parse_limit(std::string_view text, std::string_view or_else = "") {
  const auto duration = duration_of(text);
  if (!duration || duration->count() == 0) {
    reject(text, fmt::format("seconds above 0, like 300 or 1.5, or 500ms, 5m, 1h{}", or_else));
  }
  return *duration;
}

/// What may be nothing.
Config::Duration parse_span(std::string_view text) {
  const auto duration = duration_of(text);
  if (!duration) reject(text, "seconds, 0 or more, like 0.001, or 50us, 1ms");
  return *duration;
}

std::optional<Config::Duration> parse_timeout(std::string_view text) {
  if (text == "off") return std::nullopt;
  return parse_limit(text, ", or off for no deadline");
}

/// "ring, tree, ...": the names of these values.
template <typename Enum>
std::string names(Enum first, Enum last) {
  std::string text;
  for (auto i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(to_string(static_cast<Enum>(i)));
  }
  return text;
}

/// "ring", or "all_reduce=ring,broadcast=tree".
void read_algorithms(Config& config, std::string_view text) {
  const auto parse = [&](std::string_view name, const char* or_else) {
    const auto algorithm = parse_algorithm(name);
    if (!algorithm) reject(name, "one of " + names(Algorithm::automatic, Algorithm::leader) + or_else);
    return *algorithm;
  };
  std::array<bool, Config::kCollectives> by_name{};
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      const Algorithm common = parse(item, "; for one operation all_reduce=ring");
      for (std::size_t i = 0; i < by_name.size(); ++i)
        if (!by_name[i]) config.algorithm[i] = common;
      continue;
    }
    const auto collective = parse_collective(item.substr(0, equals));
    if (!collective || *collective < Collective::all_reduce || *collective > Collective::barrier)
      reject(item.substr(0, equals), "one of " + names(Collective::all_reduce, Collective::barrier));
    const auto index = static_cast<std::size_t>(*collective);
    by_name[index] = true;
    config.algorithm[index] = parse(item.substr(equals + 1), "");
    config.algorithm_named[index] = config.algorithm[index] != Algorithm::automatic;
  }
}

std::string print_algorithms(const Config& config) {
  const auto& all = config.algorithm;
  Algorithm common = Algorithm::automatic;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!config.algorithm_named[i] && all[i] != Algorithm::automatic) common = all[i];
  std::vector<std::string> items;
  if (common != Algorithm::automatic) items.emplace_back(to_string(common));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!config.algorithm_named[i] && all[i] == common) continue;
    items.push_back(fmt::format("{}={}", to_string(static_cast<Collective>(i)), to_string(all[i])));
  }
  return items.empty() ? std::string(to_string(common)) : fmt::format("{}", fmt::join(items, ","));
}

const std::array kKnobs{
    Knob{"RONDO_INIT_METHOD", "where the ranks meet: env://, tcp://host:port, file:///path",
         [](Config& c, std::string_view text) { c.init_method = text; }, [](const Config& c) { return c.init_method; }},
    Knob{"RONDO_MASTER_ADDR", "host on which rank 0 listens; wins over MASTER_ADDR",
         [](Config& c, std::string_view text) { c.master_addr = text; }, [](const Config& c) { return c.master_addr; }},
    Knob{"RONDO_MASTER_PORT", "its port; wins over MASTER_PORT",
         [](Config& c, std::string_view text) { c.master_port = detail::parse_port(text, ""); },
         [](const Config& c) { return c.master_port == 0 ? "" : fmt::format("{}", c.master_port); }},
    Knob{"RONDO_INIT_TIMEOUT", "for all ranks to meet; default 300 (seconds)",
         [](Config& c, std::string_view text) { c.init_timeout = parse_limit(text); },
         [](const Config& c) { return format_duration(c.init_timeout); }},
    Knob{"RONDO_JOB_KEY_FILE", "file of the job key: 64 hex digits, mode 0600, your own",
         [](Config& c, std::string_view text) { c.job_key_file = text; },
         [](const Config& c) { return c.job_key_file; }},
    Knob{"RONDO_INSECURE", "1: go without a job key on addresses other than loopback",
         [](Config& c, std::string_view text) { c.insecure = parse_switch(text); },
         [](const Config& c) { return std::string(c.insecure ? "1" : "0"); }},
    Knob{"RONDO_TRANSPORT", "between ranks of one host: auto, shm, unix, tcp",
         [](Config& c, std::string_view text) {
           c.transport =
               one_of(text, std::array{Transport::automatic, Transport::shm, Transport::unix_socket, Transport::tcp});
         },
         [](const Config& c) { return std::string(to_string(c.transport)); }},
    Knob{"RONDO_INTERFACE", "network interface to use, by name or address",
         [](Config& c, std::string_view text) { c.interface = text; }, [](const Config& c) { return c.interface; }},
    Knob{"RONDO_EAGER_LIMIT", "bytes; longer messages wait for their receive",
         [](Config& c, std::string_view text) { c.eager_limit = parse_size(text); },
         [](const Config& c) { return format_size(c.eager_limit); }},
    Knob{"RONDO_UNEXPECTED_BYTES", "memory for messages that nobody asked for yet",
         [](Config& c, std::string_view text) { c.unexpected_bytes = parse_size(text); },
         [](const Config& c) { return format_size(c.unexpected_bytes); }},
    Knob{"RONDO_TIMEOUT", "of an operation, above 0; default 1800 (seconds); off: none",
         [](Config& c, std::string_view text) { c.timeout = parse_timeout(text); },
         [](const Config& c) { return format_duration(c.timeout); }},
    Knob{"RONDO_ALGORITHM", "ring, or all_reduce=ring,broadcast=tree; default: the tuning table", read_algorithms,
         print_algorithms},
    Knob{"RONDO_SPIN", "a wait polls for so long at the most; default 50us, 0 where ranks share cores (seconds)",
         [](Config& c, std::string_view text) { c.spin = parse_span(text); },
         [](const Config& c) { return c.spin ? format_duration(c.spin) : ""; }},
    Knob{"RONDO_YIELD", "then yields between polls for so long, then sleeps; default 1ms (seconds)",
         [](Config& c, std::string_view text) { c.yield = parse_span(text); },
         [](const Config& c) { return format_duration(c.yield); }},
    Knob{"RONDO_CHUNK_BYTES", "of pipelined collectives; 0: the tuning table",
         [](Config& c, std::string_view text) { c.chunk_bytes = parse_size(text); },
         [](const Config& c) { return format_size(c.chunk_bytes); }},
    Knob{"RONDO_TUNING_FILE", "rules that come before the tuning table; rondo-bench tune writes such a file",
         [](Config& c, std::string_view text) { c.tuning_file = text; }, [](const Config& c) { return c.tuning_file; }},
    Knob{"RONDO_DETERMINISTIC", "1: reductions combine in rank order, whatever the count, chunks and transport",
         [](Config& c, std::string_view text) { c.deterministic = parse_switch(text); },
         [](const Config& c) { return std::string(c.deterministic ? "1" : "0"); }},
    Knob{"RONDO_LOG", "error, warn, info, debug; default warn",
         [](Config& c, std::string_view text) {
           c.log_level = one_of(text, std::array{LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug});
         },
         [](const Config& c) { return std::string(to_string(c.log_level)); }},
};

/// Read elsewhere: who a rank is, and what the tools take.
constexpr std::array kOthers{
    Config::Variable{"RONDO_RANK", "this rank; the launcher sets it"},
    Config::Variable{"RONDO_SIZE", "ranks in the job; the launcher sets it"},
    Config::Variable{"RONDO_LOCAL_RANK", "this rank among those of its host"},
    Config::Variable{"RONDO_LOCAL_SIZE", "ranks on this host"},
    Config::Variable{"RONDO_JOB_ID", "names the job; equal on all ranks"},
    Config::Variable{"RONDO_ATTEMPT", "which start of the job this is, from 0"},
    Config::Variable{"RONDO_CONTROL_FD", "inherited connection to the launcher"},
    Config::Variable{"RONDO_CUDA_LIBRARY", "the CUDA driver; default libcuda.so.1"},
};

/// How many letters are to be replaced, put in, left out or exchanged with the next.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);  // of two letters less of `a`, of one less, of all so far
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, last[j] + (a[i] == b[j] ? 0 : 1)});
      const bool exchanged = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (exchanged) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

void warn_of_unknown(Config& config, const Environment& environment) {
  const auto known = Config::variables();
  for (auto it = environment.lower_bound("RONDO_"); it != environment.end() && it->first.starts_with("RONDO_"); ++it) {
    const std::string_view name = it->first;
    const auto same = [&](const Config::Variable& v) { return v.name == name; };
    if (std::any_of(known.begin(), known.end(), same)) continue;
    const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
      return edit_distance(name, a.name) < edit_distance(name, b.name);
    });
    // One slip in three letters: what is further off was not meant.
    const std::size_t letters = name.size() - std::string_view("RONDO_").size();
    const bool near = edit_distance(name, nearest->name) <= std::max<std::size_t>(letters / 3, 1);
    config.warnings.push_back(fmt::format("{}: nothing reads this variable{}", printable(name, 64),
                                          near ? fmt::format(", did you mean {}?", nearest->name) : ""));
  }
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string_view to_string(LogLevel level) noexcept {
  constexpr std::array<std::string_view, 4> names{"error", "warn", "info", "debug"};
  return names[static_cast<std::size_t>(level)];
}

std::string_view to_string(Transport transport) noexcept {
  constexpr std::array<std::string_view, 4> names{"auto", "shm", "unix", "tcp"};
  return names[static_cast<std::size_t>(transport)];
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  if (text == "off") return std::nullopt;
  if (const auto duration = duration_of(text)) return duration;
  reject(text, "seconds like 300 or 1.5, or 500ms, 5m, 1h, off");
}

std::string format_duration(std::optional<std::chrono::nanoseconds> duration) {
  if (!duration) return "off";
  const auto count = duration->count();
  if (count % 1'000'000'000 == 0) return fmt::format("{}", count / 1'000'000'000);
  if (count % 1'000'000 == 0) return fmt::format("{}ms", count / 1'000'000);
  return fmt::format("{}us", static_cast<double>(count) / 1e3);
}

Config Config::from(const Environment& environment) {
  Config config;
  for (const Knob& knob : kKnobs) {
    const auto found = environment.find(knob.name);
    if (found == environment.end() || found->second.empty()) continue;
    try {
      knob.read(config, found->second);
    } catch (const Error& error) {
      throw Error(Errc::bad_configuration, fmt::format("{}: {}", knob.name, error.cause()));
    }
  }
  warn_of_unknown(config, environment);
  return config;
}

std::vector<Config::Variable> Config::variables() {
  std::vector<Variable> all;
  for (const Knob& knob : kKnobs) all.push_back({knob.name, knob.meaning});
  all.insert(all.end(), kOthers.begin(), kOthers.end());
  return all;
}

std::string to_string(const Config& config) {
  std::string text;
  for (const Knob& knob : kKnobs) text += fmt::format("{}={}\n", knob.name, knob.print(config));
  return text;
}

}  // namespace rondo
