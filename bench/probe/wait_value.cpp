// From one process's kernel to the next one's, by words that the device writes and waits for in its streams.

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "bench/probe/chain.hpp"
#include "bench/probe/item.hpp"
#include "bench/probe/optional_calls.hpp"
#include "bench/probe/shared_words.hpp"

namespace rondo::bench {
namespace {

/// On the board, which each process has its device map.
class HostWords final : public Words {
 public:
  HostWords(const Part& part, const OptionalCalls& calls) : board_(part.board()), driver_(part.driver()) {
    const auto memory = board_.memory();
    driver_.must(driver_.cuMemHostRegister, static_cast<void*>(memory.data()), memory.size(), kHostRegisterMapped);
    const cuda::Result found = calls.cuMemHostGetDevicePointer(&base_, memory.data(), 0U);
    if (found == cuda::Result::success) return;
    driver_.cuMemHostUnregister(memory.data());
    driver_.fail(calls.cuMemHostGetDevicePointer.name, found);
  }
  ~HostWords() override { driver_.cuMemHostUnregister(board_.memory().data()); }

  cuda::Address of(int rank) const override {
    const auto* const word = reinterpret_cast<const std::byte*>(&board_.place(rank).word);
    return base_ + static_cast<cuda::Address>(word - board_.memory().data());
  }

 private:
  const Board& board_;
  const cuda::Driver& driver_;
  cuda::Address base_ = 0;
};

class WordLink final : public ChainLink {
 public:
  WordLink(const Part& part, const OptionalCalls& calls, const Words& words)
      : part_(part),
        calls_(calls),
        own_(words.of(part.rank)),
        before_(words.of((part.rank + part.size - 1) % part.size)) {}

  void await(std::uint64_t count) override {
    part_.driver().must(calls_.cuStreamWaitValue32, part_.stream.handle(), before_, static_cast<std::uint32_t>(count),
                        kWaitGreaterOrEqual);
  }
  void tell(std::uint64_t count) override {
    part_.driver().must(calls_.cuStreamWriteValue32, part_.stream.handle(), own_, static_cast<std::uint32_t>(count),
                        kWriteBehindAll);
  }

 private:
  const Part& part_;
  const OptionalCalls& calls_;
  cuda::Address own_;
  cuda::Address before_;
};

/// Why one of the ranks could not do it; nothing where all have.
template <typename Attempt>
std::optional<std::string> refusal(const Part& part, const Attempt& attempt) {
  std::optional<std::string> why;
  try {
    attempt();
  } catch (const cuda::CudaError& error) {
    why = error.what();
    part.stream.synchronize();  // what was queued before that uses the words, which go
  }
  part.place().refused.store(why ? 1 : 0, std::memory_order_relaxed);
  part.barrier();
  for (int rank = 0; !why && rank < part.size; ++rank) {
    if (part.place(rank).refused.load(std::memory_order_relaxed) != 0) why = fmt::format("rank {} is refused it", rank);
  }
  part.barrier();
  return why;
}

template <typename MakeWords>
void measure(const Part& part, const Kernels& kernels, const OptionalCalls& calls, const std::string& what,
             const MakeWords& make_words) {
  std::unique_ptr<Words> words;
  std::optional<WordLink> link;
  const auto why = refusal(part, [&] {
    words = make_words();
    link.emplace(part, calls, *words);
    link->tell(0);
    link->await(0);
    part.stream.synchronize();
  });
  if (!why) {
    Chain chain(part, kernels, *link);
    measure_held(part, kernels, chain, what);
  } else if (part.rank == 0) {
    part.report(answered(what, *why));
  }
  if (words) words->close();
}

}  // namespace

void answer_wait_value(const Part& part) {
  const OptionalCalls calls(cuda::driver().library);
  if (!calls.missing.empty()) {
    if (part.rank == 0) part.report(answered("cuStreamWaitValue32", "the driver lacks " + calls.missing));
    return;
  }
  const Kernels kernels(part);
  measure(part, kernels, calls, "cuStreamWaitValue32, the device's memory",
          [&] { return std::make_unique<DeviceWords>(part); });
  measure(part, kernels, calls, "cuStreamWaitValue32, the host's memory",
          [&] { return std::make_unique<HostWords>(part, calls); });
}

}  // namespace rondo::bench
