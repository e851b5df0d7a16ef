#include "bench/tune/rules.hpp"

#include <array>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
struct Named {
  Value value;
  std::string_view name;
  std::string_view words;
};
constexpr std::array kCrowds{Named<Crowd>{Crowd::any, "any", ""},
                             Named<Crowd>{Crowd::fits, "fits", " with a core each"},
                             Named<Crowd>{Crowd::oversubscribed, "oversubscribed", " that share cores"}};
constexpr std::array kReaches{Named<Reach>{Reach::any, "any", ""},
                              Named<Reach>{Reach::one_host, "one_host", ", one host"},
                              Named<Reach>{Reach::hosts, "hosts", ", several hosts"}};

template <typename Value, std::size_t Size>
const Named<Value>& named(const std::array<Named<Value>, Size>& all, Value value) {
  for (const auto& one : all) {
    if (one.value == value) return one;
  }
  throw std::logic_error("a value without a name");
}

template <typename Value, std::size_t Size>
Value value_of(const std::array<Named<Value>, Size>& all, const std::string& name) {
  for (const auto& one : all) {
    if (one.name == name) return one.value;
  }
  throw std::runtime_error(fmt::format("unknown value '{}'", name));
}

Json to_json(const TuningRule& rule) {
  return {{"collective", to_string(rule.collective)},
          {"up_to_bytes", rule.up_to_bytes == kAnyBytes ? Json(nullptr) : Json(rule.up_to_bytes)},
          {"ranks_from", rule.ranks_from},
          {"ranks_to", rule.ranks_to == kAnyRanks ? Json(nullptr) : Json(rule.ranks_to)},
          {"crowd", named(kCrowds, rule.crowd).name},
          {"reach", named(kReaches, rule.reach).name},
          {"algorithm", to_string(rule.choice.algorithm)},
          {"chunk_bytes", rule.choice.chunk_bytes}};
}

TuningRule rule_of(const Json& json) {
  const auto collective = parse_collective(json.at("collective").get<std::string>());
  const auto algorithm = parse_algorithm(json.at("algorithm").get<std::string>());
  if (!collective) throw std::runtime_error("unknown collective");
  Question question;
  question.collective = *collective;
  question.one_host = question.hosts = question.hosts_in_order = true;
  if (!algorithm || !is_valid(question, *algorithm)) throw std::runtime_error("no algorithm of this collective");
  const Json& bytes = json.at("up_to_bytes");
  const Json& ranks = json.at("ranks_to");
  TuningRule rule{*collective,
                  bytes.is_null() ? kAnyBytes : bytes.get<std::uint64_t>(),
                  json.at("ranks_from").get<int>(),
                  ranks.is_null() ? kAnyRanks : ranks.get<int>(),
                  value_of(kCrowds, json.at("crowd").get<std::string>()),
                  {*algorithm, json.at("chunk_bytes").get<std::size_t>()},
                  value_of(kReaches, json.at("reach").get<std::string>())};
  if (rule.ranks_from > rule.ranks_to) throw std::runtime_error("ranks_from is above ranks_to");
  return rule;
}

/// "64 * KiB" or the number itself.
std::string bytes_as_code(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024;
  if (bytes == kAnyBytes) return "kAnyBytes";
  if (bytes >= kKiB * kKiB && bytes % (kKiB * kKiB) == 0) return fmt::format("{} * MiB", bytes / kKiB / kKiB);
  if (bytes >= kKiB && bytes % kKiB == 0) return fmt::format("{} * KiB", bytes / kKiB);
  return std::to_string(bytes);
}

}  // namespace

std::string rules_to_json(const std::vector<TuningRule>& rules) {
  Json all = Json::array();
  for (const TuningRule& rule : rules) all.push_back(to_json(rule));
  return all.dump(2);
}

std::vector<TuningRule> rules_from_json(const std::string& text) {
  std::vector<TuningRule> rules;
  const Json all = Json::parse(text);
  if (!all.is_array()) throw std::runtime_error("tuning rules: not an array");
  for (const Json& one : all) {
    try {
      rules.push_back(rule_of(one));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("tuning rule {}: {}: {}", rules.size() + 1, error.what(), one.dump()));
    }
  }
  return rules;
}

std::string rules_to_code(const std::vector<TuningRule>& rules) {
  std::string code;
  for (const TuningRule& rule : rules) {
    const std::string to = rule.ranks_to == kAnyRanks ? "kAnyRanks" : std::to_string(rule.ranks_to);
    const std::string chunk = bytes_as_code(rule.choice.chunk_bytes);
    code += fmt::format("    {{C::{}, {}, {}, {}, Crowd::{}, {{{}, {}}}", to_string(rule.collective),
                        bytes_as_code(rule.up_to_bytes), rule.ranks_from, to, named(kCrowds, rule.crowd).name,
                        to_string(rule.choice.algorithm), chunk);
    code += rule.reach == Reach::any ? "},\n" : fmt::format(", Reach::{}}},\n", named(kReaches, rule.reach).name);
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
  return fmt::format("{} {}, {} ranks{}{}: {}", to_string(rule.collective), bytes, ranks,
                     named(kCrowds, rule.crowd).words, named(kReaches, rule.reach).words, choice_to_words(rule.choice));
}

bool answers(const TuningRule& rule, const Question& question) {
  const bool crowd_fits = rule.crowd == Crowd::any || (rule.crowd == Crowd::oversubscribed) == question.oversubscribed;
  return rule.collective == question.collective && question.bytes <= rule.up_to_bytes &&
         rule.ranks_from <= question.ranks && question.ranks <= rule.ranks_to && crowd_fits &&
         reaches(rule.reach, question) && is_valid(question, rule.choice.algorithm);
}

}  // namespace rondo::bench
