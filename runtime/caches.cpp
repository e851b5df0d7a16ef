#include "runtime/caches.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

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

/// How many cores "0-3,8,10-11" are.
int cores_in(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    count += dash == std::string::npos ? 1 : whole_number(range.substr(dash + 1)) - whole_number(range) + 1;
  }
  return count;
}

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
    const int sharing = std::max(cores_in(word_in(cache + "/shared_cpu_list")), 1);
    const int online = std::max(cores_in(word_in(cpus + "/online")), 1);
    last = {bytes, (online + sharing - 1) / sharing};
  }
}

}  // namespace rondo::detail
