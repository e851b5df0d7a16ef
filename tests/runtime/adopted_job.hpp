#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include <rondo/error.hpp>

#include "tests/runtime/hub_client.hpp"

namespace rondo::testing {

using detail::Hub;
using detail::JobKey;
using detail::Join;
using detail::Notice;
using detail::Table;
using detail::Welcome;

/// A hub and its ranks on adopted connections, all on this thread.
struct AdoptedJob {
  explicit AdoptedJob(int size, const std::function<void(Hub::Job&)>& change = {}) : hub(context, plan(size, change)) {
    for (int rank = 0; rank < size; ++rank) ranks.push_back(HubClient::adopted(context, hub, rank));
  }

  static Hub::Job plan(int size, const std::function<void(Hub::Job&)>& change) {
    Hub::Job job;
    job.id = "job-7";
    job.attempt = 1;
    job.size = size;
    job.key = JobKey::random();
    job.limits.end_grace = std::chrono::milliseconds(10);
    if (change) change(job);
    return job;
  }

  void start() {
    for (auto& rank : ranks) rank.expect<Welcome>();
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].tell(Join{"address " + std::to_string(i), 0});
    for (auto& rank : ranks) rank.expect<Table>();
  }

  asio::io_context context{1};
  Hub hub;
  std::deque<HubClient> ranks;
};

inline Notice notice_of(Notice::Kind kind) {
  Notice notice;
  notice.kind = kind;
  return notice;
}

inline Notice failed(std::uint64_t communicator, const std::string& text) {
  Notice notice = notice_of(Notice::Kind::failed);
  notice.communicator = communicator;
  notice.number = 5;
  notice.code = Errc::timed_out;
  notice.text = text;
  return notice;
}

}  // namespace rondo::testing
