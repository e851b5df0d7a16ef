#include "bench/tune/message_protocol.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "transport/shm_link.hpp"

namespace rondo::bench {
namespace {

using detail::ShmLink;

/// What messages of so many bytes or more do, up to the next way's.
struct Way {
  std::size_t from = 0;
  std::string sizes;
  std::string words;
  std::string why;
};

constexpr const char* kEager = "eager: sent at once, while RONDO_UNEXPECTED_BYTES has room for it";

/// As Peer::attach and Peer::offer decide; `readable`: by process_vm_readv.
std::vector<Way> ways_of(const MessageQuestion& question, const Config& config, bool readable) {
  const bool shm = question.path == Path::shm;
  const bool reads = shm && readable && !question.allocated;
  const std::size_t limit = shm && readable ? std::min(config.eager_limit, ShmLink::kPullFrom) : config.eager_limit;
  const std::string size = format_size(limit);
  const std::string read_bound =
      fmt::format("what is longer than {} is better read than sent", format_size(ShmLink::kPullFrom));
  const std::string bound = limit == config.eager_limit ? "RONDO_EAGER_LIMIT is " + size : read_bound;
  std::vector<Way> ways{{0, "up to " + size, kEager, bound}};
  const auto longer = [&](std::size_t than, const char* words, const std::string& why) {
    ways.push_back({than + 1, "over " + format_size(than), words, why});
  };
  if (!shm) {
    longer(limit, "rendezvous: sent into the receiver's buffer, when there is one", bound);
  } else if (question.allocated) {
    longer(limit, "rendezvous: copied by the receiver out of the sender's buffer, which it maps",
           bound + "; it is allocated");
  } else if (!reads || limit < ShmLink::kPullFrom) {
    longer(limit, "rendezvous: in pieces through the ring, when there is a receive for it", bound);
  }
  if (reads && question.oversubscribed) {
    longer(ShmLink::kPullFrom, "rendezvous: read by the receiver out of the sender's memory (process_vm_readv)",
           read_bound);
  } else if (reads) {
    longer(
        ShmLink::kPullFrom,
        "rendezvous: read by the receiver (process_vm_readv), but for the back half, which a sender that waits writes",
        read_bound + "; a sender that waits has a core of its own");
  }
  return ways;
}

const Way& way_for(std::uint64_t bytes, const std::vector<Way>& ways) {
  return *std::find_if(ways.rbegin(), ways.rend(), [&](const Way& way) { return bytes >= way.from; });
}

std::string lines_of(const std::vector<Way>& ways) {
  std::string text;
  for (const Way& way : ways) text += fmt::format("  {:<12}  {}\n", way.sizes, way.words);
  return text;
}

}  // namespace

std::string message_text(const MessageQuestion& question, const Config& config) {
  const std::vector<Way> ways = ways_of(question, config, true);
  const Way& way = way_for(question.bytes, ways);
  std::string text = fmt::format("chosen: {}\nwhy: {}\n\n{}", way.words, way.why, lines_of(ways));
  if (question.path == Path::shm)
    text += "where process_vm_readv is forbidden or slow, which RONDO_LOG=info tells:\n" +
            lines_of(ways_of(question, config, false));
  return text;
}

}  // namespace rondo::bench
