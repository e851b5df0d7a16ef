// A rank that meets the others, adds up what they have, and says so: meeting_rank [METHOD RANK SIZE]. With MEETING_MODE
// garbage it first writes what no rank sends to every socket on which it listens itself, with much-garbage more than
// once; with once it ends with status
// 9 in the first attempt; with twice it makes a second world beside the first; with turns rank 0 hears of the others,
// of each in turn, a hundred times, and says if it did not sleep for that, or not until somebody spoke. With late the
// process has given up libcrypto before it meets anybody, as at its end, and has a communicator until then.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

namespace {

constexpr int kFirstDescriptor = 3, kLastDescriptor = 64;

/// Returns to how many of its own listening sockets it wrote.
int send_garbage() {
  int reached = 0;
  for (int fd = kFirstDescriptor; fd < kLastDescriptor; ++fd) {
    int listening = 0;
    socklen_t length = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) continue;
    sockaddr_storage address{};
    length = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    const int client = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(client, reinterpret_cast<const sockaddr*>(&address), length) != 0) continue;
    constexpr std::string_view kGarbage =
        "GET / HTTP/1.1\r\nHost: nobody who speaks to ranks, and more than a hello\r\n\r\n";
    if (::send(client, kGarbage.data(), kGarbage.size(), MSG_NOSIGNAL) > 0) ++reached;
    // Left open: it is for the rank to be rid of it.
  }
  return reached;
}

/// Of this thread.
long sleeps() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

/// Whom rank 0 asks for a word, sends it; rank 0 waits for whoever does.
void take_turns(rondo::Communicator& world) {
  constexpr int kTurns = 100;
  constexpr std::chrono::milliseconds kLate{2};  // rank 0, who neither spins nor yields, sleeps by then
  const auto word = [](int& value) { return std::span(&value, 1); };
  constexpr std::chrono::seconds kLong{20};  // who is not woken looks twice a second
  const long before = sleeps();
  const auto began = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int other = 1; other < world.size(); ++other) {
      int value = other;
      if (world.rank() == other) {
        world.recv(word(value), 0);
        std::this_thread::sleep_for(kLate);
        world.send(word(value), 0);
      } else if (world.rank() == 0) {
        world.send(word(value), other);
        if (world.recv(word(value), rondo::any_source).source != other) std::printf("another rank spoke\n");
      }
    }
  }
  if (world.rank() != 0) return;
  const long slept = sleeps() - before;
  const bool woken = std::chrono::steady_clock::now() - began < kLong;
  std::printf("%s, %s\n", slept >= kTurns ? "slept" : "did not sleep", woken ? "woken" : "not woken");
}

/// As at the end of a process that has used it. Not where it is built in.
void give_up_libcrypto() {
  using Digest = int(void*, const char*, const char*, const void*, std::size_t, unsigned char*, std::size_t*);
  using Cleanup = void();
  auto* const digest = reinterpret_cast<Digest*>(::dlsym(RTLD_DEFAULT, "EVP_Q_digest"));
  auto* const cleanup = reinterpret_cast<Cleanup*>(::dlsym(RTLD_DEFAULT, "OPENSSL_cleanup"));
  if (digest == nullptr || cleanup == nullptr) return;
  std::array<unsigned char, 32> hash{};
  digest(nullptr, "SHA256", nullptr, "", 0, hash.data(), nullptr);
  cleanup();
}

rondo::Communicator until_exit;

int run(const rondo::InitOptions& options, std::string_view mode) {
  rondo::Communicator here = rondo::init(options);
  if (mode == "late") give_up_libcrypto();
  rondo::Communicator& world = mode == "late" ? until_exit = std::move(here) : here;
  if (mode == "once" && std::string_view(std::getenv("RONDO_ATTEMPT")) == "0" && world.rank() == 1) std::_Exit(9);
  if (mode == "twice") (void)rondo::init(options);
  if (mode == "turns") take_turns(world);
  if (mode == "garbage") std::printf("garbage to %d\n", send_garbage());
  for (int i = 0; mode == "much-garbage" && i < 20; ++i) send_garbage();
  std::vector<int> sum(1000, world.rank() + 1);
  for (int i = 0; i < 3; ++i) {
    sum.assign(sum.size(), world.rank() + 1);
    all_reduce(world, std::span(sum), rondo::sum);
  }
  std::printf("met as rank %d of %d, sum %d\n", world.rank(), world.size(), sum.back());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rondo::InitOptions options;
  if (argc == 4) {
    options.method = argv[1];
    options.rank = std::stoi(argv[2]);
    options.size = std::stoi(argv[3]);
  }
  const char* const mode = std::getenv("MEETING_MODE");
  try {
    return run(options, mode != nullptr ? mode : "");
  } catch (const rondo::Error& error) {
    std::printf("failed with %s: %s\n", std::string(to_string(error.code())).c_str(), error.what());
    return 1;
  }
}
