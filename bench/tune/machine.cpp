#include "bench/tune/machine.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bench/compare/core_distance.hpp"
#include "bench/fork_child.hpp"
#include "bench/raw/connection.hpp"
#include "bench/statistics.hpp"
#include "bench/two_cores.hpp"
#include "runtime/arena_forming.hpp"
#include "runtime/engine.hpp"
#include "transport/process_memory.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;
using Cores = std::optional<std::array<int, 2>>;

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr int kTrials = 5;
constexpr double kNever = std::numeric_limits<double>::infinity();

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Sockets whose other end is in this process.

void send_all(int socket, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "send");
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

/// Looks again and again.
void receive_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received < 0 && errno != EAGAIN && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "recv");
    if (received == 0) throw std::system_error(ECONNRESET, std::generic_category(), "recv");
    if (received > 0) bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
}

/// Runs `part(0)` here and `part(1)` in a thread, each on its core, where there are two, from one moment on; returns
/// what the longer one took, in microseconds. What fails in either ends the program.
template <typename Part>
double together(const Cores& cores, Part part) {
  if (!cores) {
    const auto begin = Clock::now();
    part(0);
    return microseconds_since(begin);
  }
  std::atomic<int> waited_for{2};
  std::array<double, 2> took{};
  const auto run = [&](std::size_t which) {
    const OnCore own((*cores)[which]);
    --waited_for;
    while (waited_for.load() != 0) continue;
    const auto begin = Clock::now();
    part(static_cast<int>(which));
    took[which] = microseconds_since(begin);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return std::max(took[0], took[1]);
}

template <typename Trial>
double least_of_trials(Trial trial) {
  double found = kNever;
  for (int i = 0; i < kTrials; ++i) found = std::min(found, trial());
  return found;
}

struct ShortCalls {
  double message = 0;
  double vain = 0;
};

/// In one thread, there and back, so that acknowledgements travel with what comes back.
ShortCalls time_short_calls() {
  constexpr int kShortCalls = 2000;
  const auto [here, there] = connected();
  std::array<std::byte, 8> word{};
  std::vector<double> clock, message, vain;
  for (int call = 0; call < kShortCalls; ++call) {
    const int from = call % 2 == 0 ? here.get() : there.get();
    const int to = call % 2 == 0 ? there.get() : here.get();
    const auto timed = [](std::vector<double>& into, auto action) {
      const auto begin = Clock::now();
      action();
      into.push_back(microseconds_since(begin));
    };
    timed(clock, [] {});
    timed(message, [&] {
      send_all(from, word);
      receive_all(to, word);
    });
    timed(vain, [&] { return ::recv(to, word.data(), word.size(), MSG_DONTWAIT); });
  }
  const auto less_clock = [&](const std::vector<double>& times) {
    return std::max(summarise(times).p50 - summarise(clock).p50, 0.0);
  };
  return {less_clock(message), less_clock(vain)};
}

double time_one_way(const Cores& cores) {
  constexpr int kExchanges = 500;
  const auto [here, there] = connected();
  return least_of_trials([&, first = here.get(), second = there.get()] {
    return together(cores,
                    [&](int which) {
                      std::array<std::byte, 8> word{};
                      for (int i = 0; i < kExchanges; ++i) {
                        if (which == 0) send_all(first, word);
                        receive_all(which == 0 ? first : second, word);
                        if (which == 1) send_all(second, word);
                      }
                    }) /
           (2.0 * kExchanges);
  });
}

/// This thread stays on the first of the cores while it lives, if there are two.
std::optional<OnCore> on_first(const Cores& cores) {
  return cores ? std::optional<OnCore>(std::in_place, (*cores)[0]) : std::nullopt;
}

/// Another process, with this one's memory as it was when that began. It yields its core until `rest`, and ends with
/// this object.
class Twin {
 public:
  explicit Twin(const Cores& cores) {
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    shared_ = new (memory) Shared;
    process_ = fork_child();
    if (process_ != 0) return;
    const auto first = on_first(cores);
    while (!shared_->rests.load(std::memory_order_relaxed)) {
      shared_->yields.fetch_add(1, std::memory_order_relaxed);
      ::sched_yield();
    }
    for (;;) ::pause();
  }
  ~Twin() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::munmap(shared_, sizeof(Shared));
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  pid_t process() const noexcept { return process_; }
  std::uint64_t yields() const noexcept { return shared_->yields.load(std::memory_order_relaxed); }
  void rest() noexcept { shared_->rests.store(true, std::memory_order_relaxed); }

 private:
  struct Shared {
    std::atomic<std::uint64_t> yields{0};
    std::atomic<bool> rests{false};
  };

  Shared* shared_ = nullptr;
  pid_t process_ = -1;
};

/// Both yield one core to each other.
double time_turn(const Cores& cores, const Twin& twin) {
  constexpr std::uint64_t kYields = 1000;
  const auto first = on_first(cores);
  while (twin.yields() == 0) ::sched_yield();
  return least_of_trials([&] {
    const std::uint64_t theirs = twin.yields();
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < kYields; ++i) ::sched_yield();
    return microseconds_since(begin) / static_cast<double>(kYields + twin.yields() - theirs);
  });
}

/// Memory of which each core has a half, read from one part and written to the other.
class Halves {
 public:
  Halves() : from_(kMost / 2, std::byte{1}), to_(kMost / 2, std::byte{2}) {}

  static constexpr std::uint64_t kMost = 128 * MiB;

  struct Half {
    ConstBytes from;
    Bytes to;
  };
  Half half(int which, std::uint64_t all) {
    const std::size_t bytes = all / 4;
    const std::size_t begin = static_cast<std::size_t>(which) * bytes;
    return {ConstBytes(from_).subspan(begin, bytes), Bytes(to_).subspan(begin, bytes)};
  }

  /// Nanoseconds a byte where both move theirs by `move(which, from, to)`, again and again.
  template <typename Move>
  double rate(const Cores& cores, std::uint64_t all, Move move) {
    constexpr std::uint64_t kMoved = 8 * MiB;
    const std::uint64_t times = std::max<std::uint64_t>(kMoved / all, 1);
    const double took = least_of_trials([&] {
      return together(cores, [&](int which) {
        for (std::uint64_t i = 0; i < times; ++i) {
          const Half mine = half(which, all);
          move(which, mine.from, mine.to);
        }
      });
    });
    constexpr double kNanoseconds = 1e3;
    const std::uint64_t moved = times * (all / 4);
    return took * kNanoseconds / static_cast<double>(moved);
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

double time_access(const Cores& cores, Halves& halves, std::uint64_t all) {
  return halves.rate(cores, all, [](int, ConstBytes from, Bytes to) {
    std::memcpy(to.data(), from.data(), from.size());
  }) / 2;
}

double time_pull(const Cores& cores, Halves& halves, std::uint64_t all, pid_t process) {
  std::atomic<bool> allowed{true};
  const double found = halves.rate(cores, all, [&](int, ConstBytes from, Bytes to) {
    if (!detail::read_process(process, reinterpret_cast<std::uint64_t>(from.data()), to)) allowed = false;
  });
  return allowed ? found : kNever;
}

double time_socket(const Cores& cores, Halves& halves, std::uint64_t all) {
  constexpr std::size_t kPiece = 64 * KiB;  // stays in a core's cache on its way
  const std::array connections{connected(), connected()};
  return halves.rate(cores, all, [&](int which, ConstBytes from, Bytes to) {
    const auto& [here, there] = connections[static_cast<std::size_t>(which)];
    for (std::size_t begin = 0; begin < from.size(); begin += kPiece) {
      const std::size_t bytes = std::min(kPiece, from.size() - begin);
      send_all(here.get(), from.subspan(begin, bytes));
      receive_all(there.get(), to.subspan(begin, bytes));
    }
  }) / 2;
}

simulation::Time in_simulated_time(double microseconds) {
  return static_cast<simulation::Time>(microseconds * static_cast<double>(simulation::kMicrosecond));
}

Machine::Figures measured() {
  const Cores cores = first_two_cores();
  Machine::Figures figures;
  Halves halves;
  Twin twin(cores);
  figures.turn = time_turn(cores, twin);
  twin.rest();
  figures.line = least_of_trials(&CoreDistance::between_first_two_cores);
  const ShortCalls calls = time_short_calls();
  figures.message = calls.message;
  figures.vain = calls.vain;
  figures.one_way = cores ? time_one_way(cores) : calls.message;
  std::uint64_t up_to = Halves::kMost;
  for (auto rates = figures.rates.rbegin(); rates != figures.rates.rend(); ++rates, up_to /= 8) {
    rates->up_to = up_to;
    rates->access = time_access(cores, halves, up_to);
    rates->pull = time_pull(cores, halves, up_to, twin.process());
    rates->socket = time_socket(cores, halves, up_to);
  }
  return figures;
}

}  // namespace

Machine::Machine() : figures_(measured()) {}

const Machine::Rates& Machine::rates_for(std::uint64_t all) const {
  const auto& rates = figures_.rates;
  const auto found = std::find_if(rates.begin(), rates.end(), [&](const Rates& one) { return all <= one.up_to; });
  return found == rates.end() ? rates.back() : *found;
}

Constants Machine::constants(std::uint64_t bytes, int ranks) const {
  const std::uint64_t staging = detail::staging_of_member(detail::Engine::Settings().staging_bytes, ranks);
  const auto of_all = [ranks](std::uint64_t of_each) { return of_each * static_cast<std::uint64_t>(ranks); };
  const Rates& rates = rates_for(of_all(bytes));
  constexpr double kPicoseconds = 1e3;
  Constants constants;
  constants.arena = {.call = 0,
                     .meeting = figures_.line,
                     .turn = figures_.turn,
                     .access = rates.access,
                     .staged = rates_for(of_all(std::min(bytes, staging))).access,
                     .pull = rates.pull};
  constants.vain = figures_.vain;
  simulation::LogGP& tcp = constants.tcp;
  tcp.overhead = tcp.gap = in_simulated_time(figures_.message / 2);
  tcp.latency = std::max(in_simulated_time(figures_.one_way) - 2 * tcp.overhead, simulation::Time{0});
  tcp.gap_per_byte = rates.socket * kPicoseconds;
  // Two read, one written.
  tcp.reduce_per_byte = constants.shm.reduce_per_byte = 3 * rates.access * kPicoseconds;
  return constants;
}

}  // namespace rondo::bench
