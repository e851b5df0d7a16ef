#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <asio/ip/address.hpp>

#include <rondo/config.hpp>
#include <rondo/error.hpp>

#include "runtime/control.hpp"
#include "runtime/endpoint.hpp"

// Ranks of a job as threads of the test, which meet at real places.

namespace rank_threads {

using namespace rondo::detail;
using namespace std::chrono_literals;
using rondo::Config;
using rondo::Errc;
using rondo::Error;

/// How one rank's body ended; the test's own thread judges it.
struct End {
  std::optional<Errc> code;
  std::string text;
};

using Body = std::function<void()>;

inline std::vector<End> run(const std::vector<Body>& bodies) {
  std::vector<End> ends(bodies.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        bodies[i]();
      } catch (const Error& error) {
        ends[i] = {error.code(), error.what()};
      } catch (const std::exception& error) {
        ends[i] = {Errc::system, error.what()};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return ends;
}

inline std::string fresh_name() {
  static int number = 0;
  return "rondo-test-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

inline Identity member(int rank, int size, const MeetingPoint& meeting) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.job_id = "job-7";
  identity.meeting = meeting;
  return identity;
}

inline MeetingPoint by_name() {
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::unix_name;
  point.path = fresh_name();
  return point;
}

inline MeetingPoint by_file(const std::string& path) {
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::file;
  point.path = path;
  return point;
}

inline std::uint16_t port_of(const Descriptor& socket) {
  asio::ip::tcp::endpoint bound;
  auto length = static_cast<socklen_t>(bound.capacity());
  ::getsockname(socket.get(), bound.data(), &length);
  return bound.port();
}

/// A port of this process until it ends: nobody is given it by chance, rank 0 may listen on it.
inline std::uint16_t own_port(const std::string& host) {
  static std::vector<Descriptor> bound;
  const asio::ip::tcp::endpoint any(asio::ip::make_address(host), 0);
  Descriptor& socket = bound.emplace_back(::socket(any.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), any.data(), static_cast<socklen_t>(any.size())) != 0) throw std::runtime_error("no port");
  return port_of(socket);
}

inline MeetingPoint by_tcp(const std::string& host = "127.0.0.1", std::uint16_t port = 0) {
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::tcp;
  point.host = host;
  point.port = port != 0 ? port : own_port(host);
  return point;
}

inline Config patient(std::chrono::nanoseconds timeout = 60s) {
  Config config;
  config.init_timeout = timeout;
  return config;
}

/// Joins, stays until all have joined, and leaves in order.
inline void meet_and_part(const Identity& identity, const Config& config) {
  Control control(identity, config);
  control.join("address of " + std::to_string(identity.rank));
  if (control.addresses().size() != static_cast<std::size_t>(identity.size)) throw std::logic_error("incomplete");
  if (control.addresses().back() != "address of " + std::to_string(identity.size - 1)) throw std::logic_error("order");
  control.goodbye();
}

inline Notice wait_for_notice(Control& control) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < until) {
    if (auto notice = control.poll()) return *notice;
    if (control.descriptor() < 0) throw std::logic_error("the hub is gone");
    std::this_thread::yield();
  }
  throw std::logic_error("no notice came");
}

}  // namespace rank_threads
