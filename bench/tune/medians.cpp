#include "bench/tune/medians.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <ostream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/settings.hpp"

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Answered& answer) {
  Json times = Json::array();
  for (const auto& [choice, time] : answer.microseconds)
    times.push_back({{"algorithm", to_string(choice.algorithm)}, {"chunk_bytes", choice.chunk_bytes}, {"us", time}});
  const Question& question = answer.question;
  const auto loss = loss_of_table(answer);
  return {{"collective", to_string(question.collective)},
          {"bytes", question.bytes},
          {"ranks", question.ranks},
          {"oversubscribed", question.oversubscribed},
          {"one_host", question.one_host},
          {"table_to_best", loss ? Json(*loss) : Json()},
          {"candidates", std::move(times)}};
}

template <typename T>
T known(const std::optional<T>& parsed, const char* what, const std::string& name) {
  if (!parsed) throw std::runtime_error(fmt::format("no {} is called {}", what, name));
  return *parsed;
}

Answered from_json(const Json& json) {
  Answered answer;
  Question& question = answer.question;
  const auto collective = json.at("collective").get<std::string>();
  question.collective = known(parse_collective(collective), "collective", collective);
  json.at("bytes").get_to(question.bytes);
  json.at("ranks").get_to(question.ranks);
  json.at("oversubscribed").get_to(question.oversubscribed);
  json.at("one_host").get_to(question.one_host);
  for (const Json& candidate : json.at("candidates")) {
    const auto algorithm = candidate.at("algorithm").get<std::string>();
    answer.microseconds.push_back(
        {{known(parse_algorithm(algorithm), "algorithm", algorithm), candidate.at("chunk_bytes").get<std::size_t>()},
         candidate.at("us").get<double>()});
  }
  if (answer.microseconds.empty()) throw std::runtime_error(fmt::format("{} without candidates", collective));
  for (const auto& [choice, time] : answer.microseconds) {
    if (!(time > 0)) throw std::runtime_error(fmt::format("{} in {} us", collective, time));
  }
  return answer;
}

}  // namespace

void write_medians(std::ostream& to, const std::vector<Answered>& answers) {
  to << fmt::format("{{\"version\": \"{}\", \"measured\": [", RONDO_VERSION);
  for (const Answered& answer : answers) to << (&answer == answers.data() ? "\n" : ",\n") << to_json(answer).dump();
  to << "\n]}\n";
}

std::vector<Answered> read_medians(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("--from: cannot read {}: {}", path, std::strerror(errno)));
  std::vector<Answered> answers;
  try {
    const Json all = Json::parse(file);
    for (const Json& answer : all.at("measured")) answers.push_back(from_json(answer));
  } catch (const std::exception& error) {
    throw UsageError(fmt::format("--from: {} is not what tune --json writes: {}", path, error.what()));
  }
  return answers;
}

}  // namespace rondo::bench
