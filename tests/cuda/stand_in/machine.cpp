#include "tests/cuda/stand_in/machine.hpp"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    mistake(fmt::format("{}: got '{}', wanted a number", name, text));
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

/// As tools print it.
std::string text_of(const Uuid& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i % 2 == 0 && (i == 0 || (i >= 4 && i <= 10)) ? "-" : "", uuid.bytes[i]);
  return text;
}

/// The device that a word of CUDA_VISIBLE_DEVICES names: its number, or enough of the beginning of its name.
std::optional<int> named_device(const std::string& word, int devices) {
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc{} && end == word.data() + word.size()) {
    return number >= 0 && number < devices ? std::optional(number) : std::nullopt;
  }
  std::optional<int> found;
  for (int device = 0; device < devices; ++device) {
    if (!word.starts_with("GPU-") || !text_of(uuid_of(device)).starts_with(word)) continue;
    if (found) return std::nullopt;
    found = device;
  }
  return found;
}

/// All, in their order; or those that are named, up to the first that there is not.
std::vector<int> visible_devices(int devices) {
  std::vector<int> visible;
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    for (int device = 0; device < devices; ++device) visible.push_back(device);
    return visible;
  }
  for (const std::string& word : split(variable("CUDA_VISIBLE_DEVICES"), ',')) {
    const auto device = named_device(word, devices);
    if (!device) break;
    if (std::find(visible.begin(), visible.end(), *device) != visible.end()) {
      mistake("CUDA_VISIBLE_DEVICES: a device is named twice, and no document says what that means");
    }
    visible.push_back(*device);
  }
  return visible;
}

Machine read_environment() {
  Machine read;
  read.devices = static_cast<int>(number("FAKECUDA_DEVICES", 1));
  read.visible = visible_devices(read.devices);
  read.seed = number("FAKECUDA_SEED", 0);
  read.copy_ms = static_cast<int>(number("FAKECUDA_COPY_MS", 0));
  read.time_slice = number("FAKECUDA_TIME_SLICE", 0) != 0;
  read.kernel_timeout_ms = static_cast<int>(number("FAKECUDA_KERNEL_TIMEOUT_MS", 10000));
  read.nvlink = number("FAKECUDA_NVLINK", 1) != 0;
  read.mappable = number("FAKECUDA_MAPPABLE", read.mappable);
  if (const std::string unmappable = variable("FAKECUDA_UNMAPPABLE"); !unmappable.empty()) {
    const auto parts = split(unmappable, ':');
    if (parts.size() != 2) mistake("FAKECUDA_UNMAPPABLE: got '" + unmappable + "', wanted device:code");
    read.unmappable = std::atoi(parts[0].c_str());
    read.unmappable_code = static_cast<Result>(std::atoi(parts[1].c_str()));
  }
  read.strict = number("FAKECUDA_STRICT", 1) != 0;
  read.implicit_sync = number("FAKECUDA_IMPLICIT_SYNC", 0) != 0;
  read.awaited = static_cast<unsigned>(number("FAKECUDA_AWAITED", 0));
  if (const std::string peers = variable("FAKECUDA_PEERS"); !peers.empty()) {
    read.all_peers = false;
    for (const std::string& pair : split(peers, ',')) {
      const auto ends = split(pair, '-');
      if (ends.size() == 2) read.peers.emplace_back(std::atoi(ends[0].c_str()), std::atoi(ends[1].c_str()));
    }
  }
  if (const std::string failing = variable("FAKECUDA_FAIL"); !failing.empty()) {
    const auto parts = split(failing, ':');
    if (parts.size() != 3) mistake("FAKECUDA_FAIL: got '" + failing + "', wanted call:nth:code");
    read.failing_call = parts[0];
    read.failing_nth = std::atoi(parts[1].c_str());
    read.failing_code = static_cast<Result>(std::atoi(parts[2].c_str()));
  }
  read.failing_times = static_cast<int>(number("FAKECUDA_FAIL_TIMES", 1));
  read.sticky = number("FAKECUDA_STICKY", 0) != 0;
  return read;
}

/// Each event and each allocation that others may map is a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::atomic<bool> initialised{false};
std::atomic<int> matching_calls{0};
std::atomic<bool> lost{false};

struct Live {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, int> counts;

  /// When the process ends, nothing should be left.
  ~Live();
};

Live& live_things() {
  static Live things;
  return things;
}

std::string text_of(const Live& things, int device) {
  std::string text;
  for (const auto& [key, count] : things.counts) {
    if (count == 0 || (device >= 0 && key.first != device)) continue;
    text += fmt::format("{}{} {} on device {}", text.empty() ? "" : ", ", count, key.second, key.first);
  }
  return text;
}

Live::~Live() {
  const std::string left = text_of(*this, -1);
  // What such a stream has been given cannot be taken from it.
  if (machine().strict && !left.empty() && !lost && !waits_for_the_dead())
    mistake("the process ends and leaves " + left);
}

}  // namespace

const Machine& machine() {
  static const Machine read = read_environment();
  return read;
}

Uuid uuid_of(int device) { return {{'s', 't', 'a', 'n', 'd', '-', 'i', 'n', static_cast<unsigned char>(device)}}; }

Device Machine::number_of(int device) const {
  const auto found = std::find(visible.begin(), visible.end(), device);
  return found == visible.end() ? kUnseen : static_cast<Device>(found - visible.begin());
}

bool Machine::reaches(int from, int to) const {
  if (from == to) return false;  // what a real driver says of a device and itself
  if (all_peers) return true;
  for (const auto& [a, b] : peers) {
    if ((a == from && b == to) || (a == to && b == from)) return true;
  }
  return false;
}

void set_initialised() {
  raise_descriptor_limit();
  live_things();
  initialised = true;
}

Result entered(const char* call) {
  const Machine& here = machine();
  if (here.failing_call == call) {
    const int nth = ++matching_calls;
    if (nth >= here.failing_nth && nth - here.failing_nth < here.failing_times) {
      lost = here.sticky;
      return here.failing_code;
    }
  }
  if (lost) return here.failing_code;
  const bool may_come_first = std::string_view(call) == "cuInit" || std::string_view(call) == "cuDriverGetVersion";
  return initialised || may_come_first ? minding_captures(call) : Result::not_initialized;
}

Result entered_in_context(const char* call) {
  if (const Result result = entered(call); result != Result::success) return result;
  return current_device() >= 0 ? Result::success : Result::invalid_context;
}

void mistake(const std::string& what) {
  const std::string line = "stand-in driver: " + what + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

std::uint64_t unique_word() {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof(word), 0) != sizeof(word)) mistake("getrandom failed");
  return word;
}

void count_live(int device, const char* what, int change) {
  Live& things = live_things();
  const std::scoped_lock lock(things.mutex);
  things.counts[{device, what}] += change;
}

std::string live(int device) {
  Live& things = live_things();
  const std::scoped_lock lock(things.mutex);
  return text_of(things, device);
}

}  // namespace rondo::stand_in
