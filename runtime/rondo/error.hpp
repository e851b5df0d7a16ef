#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <rondo/export.hpp>

namespace rondo {

/// What kind of thing went wrong. The first group is the caller's mistake and is thrown at the call; the second is
/// the world's failure and is thrown by `wait()` (a blocking call waits for itself).
enum class Errc : std::uint8_t {
  invalid_argument,   ///< rank out of range, negative count, overlapping buffers, bad size text, ...
  not_initialized,    ///< a moved-from or inert handle was used
  concurrent_use,     ///< two threads ran collectives on one communicator at the same time
  bad_configuration,  ///< a RONDO_* or launcher variable is contradictory, incomplete or unreadable
  forked,             ///< a call in a process that was forked after rondo::init

  truncated,            ///< the message is longer than the buffer posted for it
  type_mismatch,        ///< sender and receiver name different element types, neither of them std::byte
  collective_mismatch,  ///< ranks called different collectives, or the same with different arguments
  peer_failed,          ///< the process of a peer ended, or the peer gave up
  timed_out,            ///< the operation's deadline passed
  bootstrap_failed,     ///< the ranks did not find each other
  authentication,       ///< wrong key, other job, other attempt, other version
  address_in_use,       ///< the port of the meeting point is taken
  duplicate_rank,       ///< two processes claim the same rank
  protocol,             ///< bytes that no rondo peer sends
  system,               ///< the operating system refused; the text carries its words
  cuda                  ///< the CUDA driver refused, or there is none; the facts have the call and its code
};

/// `Errc::peer_failed` -> "peer_failed".
RONDO_EXPORT std::string_view to_string(Errc code) noexcept;

/// Everything rondo throws. `what()` is one line: who, what, got, wanted.
class RONDO_EXPORT Error : public std::runtime_error {
 public:
  /// Facts about the operation that failed; -1 and empty where they do not apply.
  struct Facts {
    int rank = -1;               ///< who reports, in the communicator of the operation
    int world_rank = -1;         ///< that rank in the world, where it has another number there
    int peer = -1;               ///< the other side
    std::string operation = {};  ///< "all_reduce", "recv", ...
    std::uint64_t number = 0;    ///< of the operation on its communicator
    std::chrono::nanoseconds elapsed{0};
    std::string cuda_call = {};    ///< the function of the CUDA driver that refused: "cuMemAlloc_v2"
    int cuda_code = 0;             ///< its CUresult
    std::uint64_t cuda_bytes = 0;  ///< what that call was about
  };

  Error(Errc code, const std::string& cause);
  Error(Errc code, const std::string& cause, Facts facts);
  Error(const Error&) = default;
  ~Error() override;

  Errc code() const noexcept { return code_; }
  int rank() const noexcept { return facts_.rank; }
  int peer() const noexcept { return facts_.peer; }
  const std::string& operation() const noexcept { return facts_.operation; }
  /// The reason alone, without the facts that `what()` adds.
  const std::string& cause() const noexcept { return cause_; }
  const Facts& facts() const noexcept { return facts_; }

 private:
  Errc code_;
  std::string cause_;
  Facts facts_;
};

}  // namespace rondo
