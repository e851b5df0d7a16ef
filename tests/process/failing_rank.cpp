// What a rank may do to the others. failing_rank ACT VICTIM FAULT: all ranks do ACT again and again until an error ends
// it; after some rounds rank VICTIM has its FAULT, but it stops before the first: others let their deadline pass then,
// which no round before shall have. Prints "fault at MILLISECONDS" and "error at MILLISECONDS CODE peer RANK: TEXT",
// times of one clock for all ranks.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/process/moments.hpp"
#include "tests/support/process_end.hpp"

namespace {

using rondo::Algorithm;
using rondo::Communicator;
using rondo::testing::say_now;
using rondo::testing::wait_for_end_of;
using Round = std::function<void(Communicator&)>;

constexpr std::size_t kCount = 50'000;
constexpr std::size_t kLongCount = 4 << 20;  // 16 MiB: of two ranks with a core each both copy

Round reduce_by(Algorithm algorithm, std::size_t count) {
  return [=](Communicator& world) {
    std::vector<float> data(count, 1);
    all_reduce(world, std::span(data), rondo::sum, {algorithm});
  };
}

bool fatal = false;

/// Combined by an operator that ends its process once `fatal` is set.
void reduce_fatally(Communicator& world) {
  std::vector<float> data(2500, 1);
  all_reduce(world, std::span(data), rondo::commuting([](float a, float b) {
               if (fatal) ::raise(SIGKILL);
               return a + b;
             }),
             {Algorithm::sliced});
}

/// Rank 0 waits for what rank 1 sends with another tag, once rank 0 has sent something; the others for rank 0.
void cross(Communicator& world) {
  std::vector<float> data(4);
  if (world.rank() == 0) {
    world.recv(std::span(data), 1, rondo::Tag{7});
  } else if (world.rank() == 1) {
    world.recv(std::span(data), 0, rondo::Tag{8});
  } else {
    barrier(world);
  }
}

Round broadcast_by(Algorithm algorithm) {
  return [=](Communicator& world) {
    std::vector<float> data(kCount);
    broadcast(world, std::span(data), 0, {algorithm});
  };
}

/// Which one of two ranks fetches, and the root writes a part of.
void broadcast_fetched(Communicator& world) {
  static std::vector<float> data(kLongCount / 16);
  broadcast(world, std::span(data), 0, {Algorithm::fetched});
}

/// Which the others fetch from rank 0.
rondo::Work scatter_fetched(Communicator& world) {
  static const std::vector<float> all(kCount * static_cast<std::size_t>(world.size()));
  static std::vector<float> own(kCount);
  return iscatter(world, std::span(all), std::span(own), 0, {.algorithm = Algorithm::fetched});
}

template <std::size_t kFloats>
void exchange(Communicator& world) {
  static const std::vector<float> out(kFloats);
  static std::vector<float> in(kFloats);
  const int size = world.size();
  world.sendrecv(std::span(out), (world.rank() + 1) % size, std::span(in), (world.rank() + size - 1) % size);
}

/// From rank to rank, each waiting for the one before.
template <std::size_t kFloats>
void pass_on(Communicator& world) {
  static std::vector<float> data(kFloats);
  const int rank = world.rank();
  if (rank > 0) world.recv(std::span(data), rank - 1);
  world.send(std::span(data), (rank + 1) % world.size());
  if (rank == 0) world.recv(std::span(data), world.size() - 1);
}

/// Rank 0 takes what comes, from whoever it comes.
void collect(Communicator& world) {
  int value = 0, answer = 0;
  if (world.rank() != 0) {
    world.sendrecv(std::span(&value, 1), 0, std::span(&answer, 1), 0);
    return;
  }
  for (int i = 1; i < world.size(); ++i) {
    const auto found = world.probe();
    world.recv(std::span(&value, 1), found.source);
  }
  for (int i = 1; i < world.size(); ++i) world.send(std::span(&value, 1), i);
}

void poll(Communicator& world) {
  std::vector<float> data(kCount);
  rondo::Work work = iall_reduce(world, std::span(data), rondo::sum);
  while (!work.test()) continue;
  work.wait();
}

/// Computes while it runs, so that the helper thread is the one to see a failure.
void overlap(Communicator& world) {
  std::vector<float> data(kCount);
  rondo::Work work = iall_reduce(world, std::span(data), rondo::sum);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  work.wait();
}

Communicator& twin_of(Communicator& world) {
  static Communicator twin = world.dup();
  return twin;
}

void in_group(Communicator& world) { reduce_by(Algorithm::automatic, kCount)(twin_of(world)); }

void reduce_beside_group(Communicator& world) {
  twin_of(world);
  reduce_by(Algorithm::ring, kCount)(world);
}

void reduce_and_meet(Communicator& world) {
  reduce_by(Algorithm::automatic, kCount)(world);
  barrier(world);
}

const std::map<std::string, Round> kActs{
    {"all_reduce-ring", reduce_by(Algorithm::ring, kCount)},
    {"all_reduce-tree", reduce_by(Algorithm::tree, kCount)},
    {"all_reduce-recursive_doubling", reduce_by(Algorithm::recursive_doubling, kCount)},
    {"all_reduce-automatic", reduce_by(Algorithm::automatic, kCount)},
    {"all_reduce-small", reduce_by(Algorithm::automatic, 2)},
    {"all_reduce-fatal", reduce_fatally},
    {"broadcast-tree", broadcast_by(Algorithm::tree)},
    {"broadcast-chain", broadcast_by(Algorithm::chain)},
    {"all_reduce-barrier", reduce_and_meet},
    {"barrier", [](Communicator& world) { barrier(world); }},
    {"broadcast-fetched", broadcast_fetched},
    {"scatter-fetched", [](Communicator& world) { scatter_fetched(world).wait(); }},
    {"sendrecv", exchange<kCount>},
    {"sendrecv-long", exchange<kLongCount>},
    {"send-recv", pass_on<kCount>},
    {"send-recv-long", pass_on<kLongCount>},
    {"any-source", collect},
    {"test", poll},
    {"crossed", cross},
    {"overlap", overlap},
    {"group", in_group},
    {"beside-group", reduce_beside_group},
};

bool forked = false;

/// The child may call nothing, and what it destroys stays the parent's.
void fork_child(Communicator& world) {
  const pid_t child = ::fork();
  if (child != 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
    say_now("child ended with " + std::to_string(status));
    return;
  }
  forked = true;
  try {
    barrier(world);
  } catch (const rondo::Error& error) {
    say_now("child " + std::string(error.what()));
  }
  world = Communicator();
  std::exit(0);
}

/// They hold the other end of the pipe that this one was started with on descriptor 9.
void wait_until_others_ended() {
  char end;
  while (::read(9, &end, 1) > 0) continue;
}

constexpr rondo::Tag kGone{9};

/// Whoever expects it has a connection that ends in the middle of it.
void send_what_goes(Communicator& world) {
  constexpr std::size_t kBytes = 16 << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  world.send(std::span(static_cast<const std::byte*>(memory), kBytes), 0, kGone);
}

void expect_what_goes(Communicator& world, int from) {
  std::vector<std::byte> place(16 << 20);
  world.recv(std::span(place), from, kGone);
}

/// True when the rank shall still do its round.
bool fail(const std::string& fault, Communicator& world) {
  say_now("fault");
  if (fault == "throw") throw std::runtime_error("a bug of the program");
  if (fault == "exit") std::exit(3);
  if (fault == "quick-exit") ::_exit(0);
  if (fault == "abort") std::abort();
  if (fault == "leave") world = Communicator();
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "operator") fatal = true;
  if (fault == "owner") {
    const rondo::Work offered = scatter_fetched(world);
    ::raise(SIGKILL);
  }
  if (fault == "unmap") send_what_goes(world);
  if (fault == "overtaken") barrier(world, {.timeout = std::chrono::milliseconds(50)});
  if (fault == "fork") fork_child(world);
  if (fault == "elsewhere") barrier(twin_of(world));
  if (fault == "skip" || fault == "order") barrier(world);
  return fault != "skip";
}

int run(const std::string& act, int victim, const std::string& fault) {
  Communicator world = rondo::init();
  const Round& round = kActs.at(act);
  const bool faulty = world.rank() == victim;
  std::thread killer;
  const bool amid = fault == "kill" || fault == "halt";
  if (faulty && amid) {
    killer = std::thread([&fault] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      say_now("fault");
      ::raise(fault == "kill" ? SIGKILL : SIGSTOP);
    });
  }
  pid_t process = ::getpid();
  if (fault == "owner") broadcast(world, std::span(&process, 1), victim);
  Communicator after_all = fault == "elsewhere" ? world.dup() : Communicator();
  try {
    constexpr int kLastRound = 10;
    const int faulty_round = fault == "stop" ? 0 : 5;
    // There are connections, and all are here.
    if (fault == "stop") barrier(world, {.timeout = std::chrono::minutes(1)});
    for (int i = 0; fault != "fork" || i < kLastRound; ++i) {
      if (faulty && !amid && i == faulty_round && !fail(fault, world)) continue;
      if (fault == "owner" && i == faulty_round) wait_for_end_of(process);
      if (fault == "unmap" && i == faulty_round && world.rank() == 0) expect_what_goes(world, victim);
      if (!world) return 0;
      round(world);
    }
    return 0;
  } catch (const rondo::Error& error) {
    say_now(error);
    if (killer.joinable()) killer.join();
    if (faulty && fault == "overtaken") {
      wait_until_others_ended();
      ::_exit(3);
    }
    // Who leaves ends the calls of those who wait for it before their deadlines do.
    if (after_all) barrier(after_all, {.timeout = std::chrono::minutes(1)});
    return 1;
  }
}

}  // namespace

/// Asked by the leak sanitizer: in a forked child it sees what the parent's threads held, but not the threads.
extern "C" int __lsan_is_turned_off() { return forked ? 1 : 0; }

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // The launcher ends the ranks of a job that failed: they would have no time to say what they saw.
  std::signal(SIGTERM, SIG_IGN);
  try {
    return run(argv[1], std::stoi(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
}
