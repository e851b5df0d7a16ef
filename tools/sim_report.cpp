#include "tools/sim_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

namespace rondo::tools {
namespace {

double microseconds(simulation::Time time) {
  return static_cast<double>(time) / static_cast<double>(simulation::kMicrosecond);
}

/// Three digits that count, in the unit that suits.
std::string shown(simulation::Time time) {
  const double us = microseconds(time);
  if (us >= 1e6) return fmt::format("{:.3f} s", us / 1e6);
  if (us >= 1e4) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} us", us);
}

std::string chunk_name(std::size_t bytes) { return bytes == 0 ? "whole" : format_size(bytes); }

std::string network_line(const simulation::LogGP& model) {
  return fmt::format("latency {}, overhead {}, gap {}, {:g} ns a byte, reducing {:g} ns a byte", shown(model.latency),
                     shown(model.overhead), shown(model.gap), model.gap_per_byte / 1e3, model.reduce_per_byte / 1e3);
}

}  // namespace

std::string sim_table(const SimOptions& options, const std::vector<SimResult>& results) {
  std::string text = fmt::format("{}, {} ranks, {} bytes\n{}\n\n", to_string(options.collective), options.ranks,
                                 options.bytes, network_line(options.model));
  text += fmt::format("{:<20} {:>7} {:>14} {:>14} {:>13} {:>14} {:>14} {:>14}\n", "algorithm", "chunk", "time",
                      "formula", "messages/rank", "bytes/rank", "scratch/rank", "messages");
  bool all_simulated = true;
  for (const SimResult& result : results) {
    all_simulated = all_simulated && result.is_simulated;
    text += fmt::format("{:<20} {:>7} {:>14} {:>14} {:>13} {:>14} {:>14} {:>14}\n",
                        fmt::format("{}{}", to_string(result.algorithm), result.is_chosen ? " *" : ""),
                        chunk_name(result.chunk_bytes), result.is_simulated ? shown(result.run.time) : "-",
                        (result.stated.at_most ? "<= " : "") + shown(result.stated.time), result.run.messages,
                        result.run.bytes, result.run.scratch, result.run.total_messages);
  }
  text += "\n* what the tuning table takes. Per rank: of the busiest. <=: at most, where no formula is exact.\n";
  if (!all_simulated) text += fmt::format("- more than {} messages: not simulated.\n", options.max_messages);
  return text;
}

std::string sim_json(const SimOptions& options, const std::vector<SimResult>& results) {
  nlohmann::ordered_json report;
  report["version"] = RONDO_VERSION;
  report["op"] = to_string(options.collective);
  report["ranks"] = options.ranks;
  report["bytes"] = options.bytes;
  report["root"] = options.root;
  report["network"] = {{"latency_us", microseconds(options.model.latency)},
                       {"overhead_us", microseconds(options.model.overhead)},
                       {"gap_us", microseconds(options.model.gap)},
                       {"gap_per_byte_ns", options.model.gap_per_byte / 1e3},
                       {"reduce_per_byte_ns", options.model.reduce_per_byte / 1e3}};
  report["results"] = nlohmann::ordered_json::array();
  for (const SimResult& result : results) {
    nlohmann::ordered_json line;
    line["algorithm"] = to_string(result.algorithm);
    line["chunk_bytes"] = result.chunk_bytes;
    line["chosen"] = result.is_chosen;
    line["simulated"] = result.is_simulated;
    line["time_us"] = microseconds(result.run.time);
    line["formula_us"] = microseconds(result.stated.time);
    line["formula_is_bound"] = result.stated.at_most;
    line["messages_per_rank"] = result.run.messages;
    line["bytes_per_rank"] = result.run.bytes;
    line["scratch_per_rank"] = result.run.scratch;
    line["messages"] = result.run.total_messages;
    report["results"].push_back(line);
  }
  return report.dump(2) + "\n";
}

}  // namespace rondo::tools
