#pragma once

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>
#include <rondo/error.hpp>
#include <rondo/init.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {

/// What a rank may do, by name.
using Acts = std::map<std::string, std::function<void(Communicator&)>>;

/// Further ones of each of the programs: of memory of all kinds, short ones, long ones in pieces, with streams that
/// wait, from several threads, in other communicators than the world, and those that go wrong, or are given up.
Acts message_memory();
Acts message_short();
Acts message_pieces();
Acts message_streams();
Acts message_threads();
Acts message_groups();
Acts message_failures();
Acts message_given_up();
/// Of blocks of unequal lengths, many at a time, in groups.
Acts collective_blocks();
/// Through the host, in pieces.
Acts collective_pieces();
Acts collective_failures();
Acts collective_order();

/// Of a collective that goes through the host.
inline std::size_t& piece_bytes(const Communicator& world) {
  return CommunicatorAccess::engine(world)->device().piece_bytes;
}

/// The main of a rank that does one act. 0: all was as it must be, else it says what was not.
inline int run_act(int argc, char** argv, std::initializer_list<Acts> all) {
  Acts acts;
  for (const Acts& some : all) acts.insert(some.begin(), some.end());
  const auto act = argc == 2 ? acts.find(argv[1]) : acts.end();
  if (act == acts.end()) return 2;
  // Of a job that failed: they would have no time to say what they saw.
  std::signal(SIGTERM, SIG_IGN);
  try {
    Communicator world = init();
    if (const char* const bytes = std::getenv("TEST_PIECE_BYTES")) piece_bytes(world) = std::stoul(bytes);
    act->second(world);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}

/// The error of a call that is to throw one, which is printed, too: at once, for a launcher may be tired of a rank
/// whose device waits for one that has died.
template <typename Call>
Error expect_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    return error;
  }
  throw std::runtime_error("no error");
}

/// The call throws this error.
template <typename Call>
Error refused(Errc code, const std::string& text, const Call& call) {
  const Error error = expect_error(call);
  require(error.code() == code, "the code of an error");
  require(std::string(error.what()).find(text) != std::string::npos, "the text of an error");
  return error;
}

/// The driver refuses this function, of which the error knows the name and what it returned.
template <typename Call>
Error driver_refuses(const std::string& function, int result, const Call& call) {
  const Error error = refused(Errc::cuda, function + ": got CUDA_ERROR", call);
  const Error::Facts& facts = error.facts();
  require(facts.cuda_call == function && facts.cuda_code == result, "the facts of an error");
  // Which has no communicator.
  require(facts.rank >= 0 || facts.operation == "any_span", "whose error it is");
  return error;
}

/// The device whose memory a rank gets by `cuda::buffer`, whatever its number in a group.
inline cuda::Device own_device(const Communicator& group) {
  int count = 0;
  const cuda::Driver& driver = driver_under_test();
  driver.must(driver.cuDeviceGetCount, &count);
  return CommunicatorAccess::engine(group)->settings().rank % count;
}

template <typename T>
cuda::Address address_of(const cuda::buffer<T>& buffer) {
  return cuda::address_of(buffer.data());
}

inline CudaStream stream_of(const DeviceUnderTest& device) { return device.stream.handle(); }

}  // namespace rondo::testing
