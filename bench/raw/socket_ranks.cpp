#include "bench/raw/socket_ranks.hpp"

#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/raw/connection.hpp"
#include "bench/raw/forked_ranks.hpp"
#include "runtime/cores.hpp"
#include "transport/socket_link.hpp"

namespace rondo::bench {
namespace {

using detail::Descriptor;
using Own = detail::SocketLink;  // what rondo does is done here, too

// Without more ranks than cores: others may want the cores, too.
constexpr unsigned kRoundsPerYield = 16;

/// What send or recv gave, as a number of bytes; 0 where it would have to wait.
std::size_t moved(ssize_t result, int rank, const char* what) {
  if (result > 0) return static_cast<std::size_t>(result);
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  throw std::system_error(result == 0 ? ECONNRESET : errno, std::generic_category(),
                          fmt::format("{} rank {}", what, rank));
}

/// Calls `move(part)`, which gives the bytes that went, for each part, and drops what is done. True if any went.
template <typename Part, typename Move>
bool move_each(std::vector<Part>& parts, Move&& move) {
  bool any = false;
  for (std::size_t i = 0; i < parts.size();) {
    Part& part = parts[i];
    const std::size_t bytes = part.bytes.empty() ? 0 : move(part);
    any = any || bytes > 0;
    part.bytes = part.bytes.subspan(bytes);
    if (part.bytes.empty())
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return any;
}

}  // namespace

SocketRanks::SocketRanks(int ranks) : size_(ranks), crowded_(ranks > detail::usable_cores()) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<Descriptor>> ends(count);
  for (auto& of_rank : ends) of_rank.resize(count);
  for (std::size_t low = 0; low < count; ++low) {
    for (std::size_t high = low + 1; high < count; ++high) std::tie(ends[low][high], ends[high][low]) = connected();
  }
  rank_ = fork_ranks(ranks);
  const std::vector<int> cores = detail::own_cores();
  if (crowded_) core_.emplace(cores[static_cast<std::size_t>(rank_) * cores.size() / count]);
  for (auto& end : ends[static_cast<std::size_t>(rank_)]) connections_.push_back({std::move(end)});
}

void SocketRanks::gather(Connection& connection, bool gathers) {
  if (connection.gathers == gathers) return;
  connection.gathers = gathers;
  set_on(connection.socket.get(), TCP_NODELAY, "TCP_NODELAY", !gathers);
}

std::size_t SocketRanks::send_some(const Sent& part) {
  Connection& to = connection(part.rank);
  to.run = part.bytes.size() <= Own::kShortFrame ? std::min(to.run + 1, Own::kLongRun) : 0;
  gather(to, to.run == Own::kLongRun);
  to.owes_acknowledgement = false;
  return moved(::send(to.socket.get(), part.bytes.data(), part.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL), part.rank,
               "sending to");
}

std::size_t SocketRanks::receive_some(const Received& part) {
  Connection& from = connection(part.rank);
  const std::size_t bytes =
      moved(::recv(from.socket.get(), part.bytes.data(), part.bytes.size(), MSG_DONTWAIT), part.rank, "receiving from");
  if (bytes > 0) {
    from.run = 0;
    gather(from, false);
    from.owes_acknowledgement = part.bytes.size() <= Own::kShortFrame;
    from.looked_in_vain = 0;
  } else if (from.owes_acknowledgement && ++from.looked_in_vain >= (crowded_ ? 1 : Own::kPatience)) {
    from.owes_acknowledgement = false;
    set_on(from.socket.get(), TCP_QUICKACK, "TCP_QUICKACK", true);
    set_on(from.socket.get(), TCP_QUICKACK, "TCP_QUICKACK", false);
  }
  return bytes;
}

void SocketRanks::exchange(std::span<const Sent> sent, std::span<const Received> received, unsigned looks) {
  sending_.assign(sent.begin(), sent.end());
  receiving_.assign(received.begin(), received.end());
  const auto any_short = [](const auto& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return !part.bytes.empty() && part.bytes.size() <= Own::kShortFrame; });
  };
  bool gives_way = crowded_ && looks == 0 && any_short(sent) && any_short(received);
  unsigned in_vain = 0;
  while (true) {
    const bool any_sent = move_each(sending_, [this](const Sent& part) { return send_some(part); });
    if (std::exchange(gives_way, false)) sched_yield();
    const bool any_received = move_each(receiving_, [this](const Received& part) { return receive_some(part); });
    if (sending_.empty() && receiving_.empty()) return;
    if (any_sent || any_received) {
      in_vain = 0;
    } else if (crowded_ ? ++in_vain > looks : ++rounds_ % kRoundsPerYield == 0) {
      sched_yield();
    }
  }
}

void SocketRanks::send(int to, std::span<const std::byte> bytes) {
  const Sent part{to, bytes};
  exchange({&part, 1}, {});
}

void SocketRanks::recv(int from, std::span<std::byte> bytes) {
  const Received part{from, bytes};
  exchange({}, {&part, 1});
}

void SocketRanks::barrier() {
  const int first = rank_ == 0 ? 1 : 0;
  std::byte token{};
  std::byte theirs{};
  const Sent sent{first, {&token, 1}};
  const Received received{first, {&theirs, 1}};
  // Two tell each other. Of more all tell rank 0, which then tells all: the fewest messages.
  if (rank_ != 0 || size_ == 2) return exchange({&sent, 1}, {&received, 1});
  for (int other = 1; other < size_; ++other) recv(other, {&theirs, 1});
  for (int other = 1; other < size_; ++other) send(other, {&token, 1});
}

void SocketRanks::fold(std::span<double> values, Fold how) {
  std::vector<std::vector<double>> theirs(static_cast<std::size_t>(size_), std::vector<double>(values.size()));
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    sent.push_back({other, std::as_bytes(values)});
    received.push_back({other, std::as_writable_bytes(std::span(theirs[static_cast<std::size_t>(other)]))});
  }
  exchange(sent, received);
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = theirs[static_cast<std::size_t>(other)][i];
      values[i] = how == Fold::max ? std::max(values[i], value) : values[i] + value;
    }
  }
}

}  // namespace rondo::bench
