// Collectives on buffers of `allocate`: whoever needs what is in another's takes it from there, or puts it there. What
// a rank has mapped of the others' is taken from it, and it is noticed when it goes there.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

/// Memory that is out of reach until this thread, which alone may, goes there.
class Trap {
 public:
  explicit Trap(std::span<std::byte> memory) : memory_(memory) {
    place_ = std::find(set.begin(), set.end(), nullptr);
    if (place_ == set.end()) throw std::runtime_error("too many traps");
    *place_ = this;
    protect(PROT_NONE);
  }
  ~Trap() {
    protect(PROT_READ | PROT_WRITE);
    *place_ = nullptr;
  }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  bool sprung() const { return sprung_; }

  static void spring(int, siginfo_t* info, void*) {
    auto* const at = static_cast<std::byte*>(info->si_addr);
    for (Trap* trap : set) {
      if (trap == nullptr || at < trap->memory_.data() || at >= trap->memory_.data() + trap->memory_.size()) continue;
      trap->sprung_ = true;
      return trap->protect(PROT_READ | PROT_WRITE);
    }
    std::signal(SIGSEGV, SIG_DFL);
  }

 private:
  void protect(int access) { ::mprotect(memory_.data(), memory_.size(), access); }

  using Set = std::array<Trap*, 8>;
  static inline thread_local Set set{};

  const std::span<std::byte> memory_;
  Set::iterator place_ = nullptr;
  volatile bool sprung_ = false;
};

constexpr std::size_t kBlock = std::size_t{64} << 10;  // whole pages, and worth it

/// Whether a rank goes to the others' parts of these buffers in a call.
bool goes_there(Communicator& world, std::span<float> in, std::span<float> out, const std::function<void()>& call) {
  barrier(world);
  bool goes = false;
  {
    std::vector<std::unique_ptr<Trap>> traps;
    for (const std::span<float> part : {in, out}) {
      for (int other = 0; other < world.size(); ++other) {
        if (other == world.rank()) continue;
        float* const begin = part.data() + (other - world.rank()) * static_cast<std::ptrdiff_t>(part.size());
        traps.push_back(std::make_unique<Trap>(std::as_writable_bytes(std::span(begin, part.size()))));
      }
    }
    call();
    for (const auto& trap : traps) goes = goes || trap->sprung();
  }
  all_reduce(world, std::span(&goes, 1), lor);
  return goes;
}

}  // namespace

TEST_CASE("what others have allocated is read, or written, where it is", "[collectives][allocate]") {
  struct sigaction springing {};
  struct sigaction before {};
  springing.sa_sigaction = &Trap::spring;
  springing.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGSEGV, &springing, &before) == 0);
  const int size = GENERATE(2, 3);
  run_ranks(size, [](Communicator& world) {
    const auto all = kBlock * static_cast<std::size_t>(world.size());
    auto in = rondo::allocate<float>(world, all);
    auto out = rondo::allocate<float>(world, all);
    const std::span<const float> whole = in.span(), block = whole.first(kBlock);
    const std::span<float> to = out.span(), to_block = to.first(kBlock);
    const std::vector<std::pair<std::string, std::function<void()>>> calls{
        {"all_reduce", [&] { all_reduce(world, block, to_block, sum); }},
        {"direct all_reduce", [&] { all_reduce(world, block, to_block, sum, {Algorithm::direct}); }},
        {"all_reduce in place", [&] { all_reduce(world, to_block, sum); }},
        {"reduce", [&] { reduce(world, block, to_block, sum, 1); }},
        {"reduce_scatter", [&] { reduce_scatter(world, whole, to_block, sum); }},
        {"broadcast", [&] { broadcast(world, to, 1); }},
        {"all_gather", [&] { all_gather(world, block, to); }},
        {"gather", [&] { gather(world, block, to, 1); }},
        {"scatter", [&] { scatter(world, whole, to_block, 1); }},
        {"all_to_all", [&] { all_to_all(world, whole, to); }},
    };
    for (const auto& [name, call] : calls) {
      require(goes_there(world, in.span(), out.span(), call), name + " goes to nobody's buffer");
    }
  });
  REQUIRE(::sigaction(SIGSEGV, &before, nullptr) == 0);
}
