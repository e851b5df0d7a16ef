#pragma once

#include <chrono>
#include <string>
#include <thread>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "runtime/hub.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// The hub on a thread of rank 0, where no launcher runs one. The thread blocks all signals.
class HubThread {
 public:
  HubThread(Hub::Job job, Log log);
  HubThread(const HubThread&) = delete;
  HubThread& operator=(const HubThread&) = delete;
  /// Lets the last notices be written, at most 200 ms, then ends.
  ~HubThread();

  /// As Hub's; before `start`.
  std::string listen_tcp(const std::string& host, std::uint16_t port) { return hub_.listen_tcp(host, port); }
  std::string listen_unix(const std::string& abstract_name) { return hub_.listen_unix(abstract_name); }

  /// Starts the thread. Returns rank 0's own connection to the hub.
  Descriptor start();

 private:
  void run() noexcept;

  asio::io_context context_{1};
  Hub hub_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace rondo::detail
