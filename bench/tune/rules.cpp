#include "bench/tune/rules.hpp"

#include <fmt/format.h>

#include <rondo/size.hpp>

namespace rondo::bench {
namespace {

std::string_view words_for(Crowd crowd) {
  if (crowd == Crowd::any) return "";
  return crowd == Crowd::fits ? " with a core each" : " that share cores";
}

std::string_view words_for(Reach reach) {
  if (reach == Reach::any) return "";
  return reach == Reach::one_host ? ", one host" : ", several hosts";
}

/// "64 * KiB" or the number itself.
std::string bytes_as_code(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1024;
  if (bytes == kAnyBytes) return "kAnyBytes";
  if (bytes >= kKibi * kKibi && bytes % (kKibi * kKibi) == 0) return fmt::format("{} * MiB", bytes / kKibi / kKibi);
  if (bytes >= kKibi && bytes % kKibi == 0) return fmt::format("{} * KiB", bytes / kKibi);
  return std::to_string(bytes);
}

}  // namespace

std::string rules_to_code(const std::vector<TuningRule>& rules) {
  std::string code;
  for (const TuningRule& rule : rules) {
    const std::string to = rule.ranks_to == kAnyRanks ? "kAnyRanks" : std::to_string(rule.ranks_to);
    const std::string chunk = bytes_as_code(rule.choice.chunk_bytes);
    code += fmt::format("    {{C::{}, {}, {}, {}, Crowd::{}, {{{}, {}}}", to_string(rule.collective),
                        bytes_as_code(rule.up_to_bytes), rule.ranks_from, to, to_string(rule.crowd),
                        to_string(rule.choice.algorithm), chunk);
    code += rule.reach == Reach::any ? "},\n" : fmt::format(", Reach::{}}},\n", to_string(rule.reach));
  }
  return code;
}

std::string choice_to_words(const Choice& choice) {
  return fmt::format("{}, {}", to_string(choice.algorithm),
                     choice.chunk_bytes == 0 ? "whole" : "chunks of " + format_size(choice.chunk_bytes));
}

std::string rule_to_words(const TuningRule& rule) {
  const std::string bytes = rule.up_to_bytes == kAnyBytes ? "of any size" : "up to " + format_size(rule.up_to_bytes);
  std::string ranks = std::to_string(rule.ranks_from);
  if (rule.ranks_to == kAnyRanks)
    ranks += " or more";
  else if (rule.ranks_to != rule.ranks_from)
    ranks += fmt::format(" to {}", rule.ranks_to);
  return fmt::format("{} {}, {} ranks{}{}: {}", to_string(rule.collective), bytes, ranks, words_for(rule.crowd),
                     words_for(rule.reach), choice_to_words(rule.choice));
}

bool answers(const TuningRule& rule, const Question& question) {
  const bool crowd_fits = rule.crowd == Crowd::any || (rule.crowd == Crowd::oversubscribed) == question.oversubscribed;
  return rule.collective == question.collective && question.bytes <= rule.up_to_bytes &&
         rule.ranks_from <= question.ranks && question.ranks <= rule.ranks_to && crowd_fits &&
         reaches(rule.reach, question) && is_valid(question, rule.choice.algorithm);
}

}  // namespace rondo::bench
