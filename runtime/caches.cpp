#include "runtime/caches.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "runtime/cores.hpp"

namespace rondo::detail {
namespace {

std::string word_in(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

int whole_number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// "32768K"; 0: it is not told.
std::size_t size_in(const std::string& text) {
  return text.ends_with('K') ? static_cast<std::size_t>(std::max(whole_number(text), 0)) << 10 : 0;
}

/// How many cores a list names; at least 1.
int cores_in(const std::string& path) { return std::max(static_cast<int>(parse_cpu_list(word_in(path)).size()), 1); }

}  // namespace

LastCaches last_caches(const std::string& cpus) {
  LastCaches last;
  int last_level = 0;
  for (int index = 0;; ++index) {
    const std::string cache = cpus + "/cpu0/cache/index" + std::to_string(index);
    const int level = whole_number(word_in(cache + "/level"));
    if (level == 0) return last;
    if (level <= last_level || word_in(cache + "/type") == "Instruction") continue;
    last_level = level;
    last = LastCaches();
    const std::size_t bytes = size_in(word_in(cache + "/size"));
    if (bytes == 0) continue;
    const int sharing = cores_in(cache + "/shared_cpu_list");
    last = {bytes, (cores_in(cpus + "/online") + sharing - 1) / sharing};
  }
}

}  // namespace rondo::detail
