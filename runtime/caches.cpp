#include "runtime/caches.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace rondo::detail {
namespace {

constexpr std::size_t kUsualBytes = std::size_t{32} << 20;

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
std::size_t size_in(const std::string& size) {
  return size.ends_with('K') ? static_cast<std::size_t>(std::max(whole_number(size), 0)) << 10 : 0;
}

/// How many "0-3,8,10-11" are.
int count_of(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    count += dash == std::string::npos ? 1 : whole_number(range.substr(dash + 1)) - whole_number(range) + 1;
  }
  return count;
}

}  // namespace

std::size_t last_cache_bytes(int cores, const std::string& cpus) {
  int last = 0;
  std::string folder;
  for (int index = 0;; ++index) {
    const std::string cache = cpus + "/cpu0/cache/index" + std::to_string(index);
    const int level = whole_number(word_in(cache + "/level"));
    if (level == 0) break;
    if (level <= last || word_in(cache + "/type") == "Instruction") continue;
    last = level;
    folder = cache;
  }
  const std::size_t bytes = size_in(word_in(folder + "/size"));
  if (bytes == 0) return kUsualBytes;
  const int sharing = std::max(count_of(word_in(folder + "/shared_cpu_list")), 1);
  const int caches = std::max(count_of(word_in(cpus + "/online")) / sharing, 1);
  return bytes * static_cast<std::size_t>(std::min(caches, cores));
}

}  // namespace rondo::detail
