#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <future>
#include <latch>
#include <memory>

#include <asio/io_context.hpp>

#include "runtime/hub.hpp"
#include "runtime/world.hpp"
#include "tests/runtime/rank_threads.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace rank_threads;
using Catch::Matchers::ContainsSubstring;

namespace {

/// For rank 1: keeps the promise when the hub is not there at its first call.
Log when_it_must_wait(std::promise<void>& tried) {
  return Log(rondo::LogLevel::debug, 1, [&, once = false](rondo::LogLevel, std::string_view line) mutable {
    if (once || line.find("not there yet") == std::string_view::npos) return;
    once = true;
    tried.set_value();
  });
}

}  // namespace

TEST_CASE("ranks meet at every kind of place", "[runtime][bootstrap]") {
  const TemporaryDirectory directory;
  const auto where = GENERATE_COPY(0, 1, 2, 3);
  const MeetingPoint point = where == 0   ? by_name()
                             : where == 1 ? by_tcp()
                             : where == 2 ? by_tcp("::1")
                                          : by_file(directory / "meet");
  INFO(to_string(point));
  for (const int size : {2, 5}) {
    std::vector<Body> bodies;
    for (int rank = 0; rank < size; ++rank) {
      bodies.emplace_back([=] { meet_and_part(member(rank, size, point), patient()); });
    }
    for (const End& end : run(bodies)) CHECK(end.text == "");
  }
}

TEST_CASE("ranks whom no launcher has numbered on their host are so by their meeting", "[runtime][bootstrap]") {
  const MeetingPoint point = by_name();
  std::vector<int> numbers(3, -1);
  std::vector<Body> bodies;
  for (int rank = 0; rank < 3; ++rank) {
    bodies.emplace_back([&, rank] {
      Identity identity = member(rank, 3, point);
      if (rank == 1) identity.local_rank = 7;
      World world(identity, patient());
      numbers[static_cast<std::size_t>(rank)] = world.engine().device().local_rank;
    });
  }
  for (const End& end : run(bodies)) CHECK(end.text == "");
  CHECK(numbers == std::vector{0, 7, 2});
}

TEST_CASE("rank 0 may be late", "[runtime][bootstrap]") {
  const MeetingPoint point = by_tcp();
  std::promise<void> tried;
  const Log log = when_it_must_wait(tried);
  const auto ends = run({[&] {
                           tried.get_future().wait();
                           meet_and_part(member(0, 2, point), patient());
                         },
                         [&] {
                           Control control(member(1, 2, point), patient(), log);
                           control.join("address of 1");
                           control.goodbye();
                         }});
  for (const End& end : ends) CHECK(end.text == "");
}

TEST_CASE("a rank that comes to the next job at a place waits until the one before is over", "[runtime][bootstrap]") {
  const TemporaryDirectory directory;
  const MeetingPoint point = GENERATE(false, true) ? by_tcp() : by_file(directory / "meet");
  INFO(to_string(point));
  std::promise<void> tried;
  const Log log = when_it_must_wait(tried);
  const auto ends = run({[&] {
                           {
                             Control control(member(0, 2, point), patient(10s));
                             control.join("address of 0");
                             tried.get_future().wait_for(10s);
                             control.goodbye();
                           }
                           meet_and_part(member(0, 2, point), patient(10s));
                         },
                         [&] {
                           meet_and_part(member(1, 2, point), patient(10s));
                           Control control(member(1, 2, point), patient(10s), log);
                           control.join("address of 1");
                           control.goodbye();
                         }});
  for (const End& end : ends) CHECK(end.text == "");
}

TEST_CASE("ranks that never come are listed to all that came", "[runtime][bootstrap]") {
  const MeetingPoint point = by_name();
  std::latch here(2);
  const auto body = [&](int rank) {
    return [&, rank] {
      Control control(member(rank, 4, point), patient(2s));
      here.arrive_and_wait();
      control.join("");
    };
  };
  for (const End& end : run({body(0), body(3)})) {
    CHECK(end.code == Errc::bootstrap_failed);
    CHECK_THAT(end.text, ContainsSubstring("never came: ranks 1, 2"));
  }
}

TEST_CASE("a hub that cannot be reached is named, with the last cause", "[runtime][bootstrap]") {
  const MeetingPoint point = by_tcp();
  const End end = run({[&] { meet_and_part(member(1, 2, point), patient(300ms)); }})[0];
  CHECK(end.code == Errc::bootstrap_failed);
  CHECK_THAT(end.text, ContainsSubstring("rank 1 did not reach the hub at " + to_string(point) + " within 0.3 s"));
  CHECK_THAT(end.text, ContainsSubstring("Connection refused"));
}

TEST_CASE("a hub that accepts and never answers is named so", "[runtime][bootstrap]") {
  const Descriptor silent = listen_on({asio::ip::make_address("127.0.0.1"), 0});
  const End end = run({[&] { meet_and_part(member(1, 2, by_tcp("127.0.0.1", port_of(silent))), patient(500ms)); }})[0];
  CHECK(end.code == Errc::bootstrap_failed);
  CHECK_THAT(end.text, ContainsSubstring("accepts connections but does not answer"));
}

TEST_CASE("whoever listens at the meeting point and never answers is no hub, long before the ranks give up",
          "[runtime][bootstrap]") {
  const bool hangs_up = GENERATE(false, true);
  INFO((hangs_up ? "it hangs up" : "it is silent"));
  const Descriptor stranger = listen_on({asio::ip::make_address("127.0.0.1"), 0});
  const MeetingPoint point = by_tcp("127.0.0.1", port_of(stranger));
  std::atomic<bool> done = false;
  const auto serve = [&] {
    while (hangs_up && !done) {
      // Accepted, and ended with the descriptor.
      if (!Descriptor(::accept4(stranger.get(), nullptr, nullptr, SOCK_CLOEXEC))) std::this_thread::yield();
    }
  };
  const auto call = [&] {
    const auto ended = std::shared_ptr<void>(nullptr, [&](void*) { done = true; });
    Config config = patient();
    config.handshake_timeout = hangs_up ? 500ms : 50ms;  // time for the server to come to it
    meet_and_part(member(1, 2, point), config);
  };
  const End end = run({call, serve})[0];
  CHECK(end.code == Errc::address_in_use);
  CHECK_THAT(end.text, ContainsSubstring("rank 1 cannot join the hub at 127.0.0.1:" + std::to_string(point.port)) &&
                           ContainsSubstring(hangs_up ? "ended the connection" : "does not answer") &&
                           ContainsSubstring("another program may hold this address"));
}

TEST_CASE("two processes with one number are told, and all that joined", "[runtime][bootstrap]") {
  const int twice = GENERATE(0, 1);
  const TemporaryDirectory directory;
  const MeetingPoint point = GENERATE(false, true) ? by_tcp() : by_file(directory / "meet");
  INFO(to_string(point));
  std::latch here(2);
  const auto body = [&](int rank) {
    return [&, rank] {
      Control control(member(rank, 3, point), patient());
      here.count_down();
      control.join("");
    };
  };
  const auto second = [&] {
    here.wait();
    Control control(member(twice, 3, point), patient());
  };
  for (const End& end : run({body(0), body(1), second})) {
    CHECK(end.code == Errc::duplicate_rank);
    CHECK_THAT(end.text, ContainsSubstring("rank " + std::to_string(twice) + " is claimed twice"));
  }
}

TEST_CASE("a rank that comes to a meeting which has just failed is told why", "[runtime][bootstrap]") {
  const MeetingPoint point = by_tcp();
  std::latch here(1), failed(1);
  const auto ends = run({[&] {
                           Control control(member(0, 2, point), patient());
                           here.count_down();
                           control.join("");
                         },
                         [&] {
                           here.wait();
                           const auto told = std::shared_ptr<void>(nullptr, [&](void*) { failed.count_down(); });
                           Control control(member(0, 2, point), patient());
                         },
                         [&] {
                           failed.wait();
                           meet_and_part(member(1, 2, point), patient(10s));
                         }});
  for (const End& end : ends) {
    CHECK(end.code == Errc::duplicate_rank);
    CHECK_THAT(end.text, ContainsSubstring("rank 0 is claimed twice"));
  }
}

TEST_CASE("sizes that differ between ranks are told to all", "[runtime][bootstrap]") {
  const MeetingPoint point = by_name();
  for (const End& end : run({[&] { meet_and_part(member(0, 3, point), patient()); },
                             [&] { meet_and_part(member(1, 2, point), patient()); }})) {
    CHECK(end.code == Errc::bad_configuration);
    CHECK_THAT(end.text, ContainsSubstring("2") && ContainsSubstring("3"));
  }
}

TEST_CASE("a rank of another job or attempt is turned away, and the job goes on", "[runtime][bootstrap]") {
  const MeetingPoint point = by_name();
  std::latch tried(2);
  const auto ends = run({[&] {
                           Control control(member(0, 2, point), patient());
                           tried.wait();
                           control.join("");
                           control.goodbye();
                         },
                         [&] {
                           tried.wait();
                           meet_and_part(member(1, 2, point), patient());
                         },
                         [&] {
                           Identity other = member(1, 2, point);
                           other.job_id = "job-8";
                           const auto counted = std::shared_ptr<void>(nullptr, [&](void*) { tried.count_down(); });
                           Control control(other, patient());
                         },
                         [&] {
                           Identity other = member(1, 2, point);
                           other.attempt = 4;
                           const auto counted = std::shared_ptr<void>(nullptr, [&](void*) { tried.count_down(); });
                           Control control(other, patient());
                         }});
  CHECK(ends[0].text == "");
  CHECK(ends[1].text == "");
  CHECK(ends[2].code == Errc::authentication);
  CHECK_THAT(ends[2].text, ContainsSubstring("other job: the hub belongs to job \"job-7\", wanted \"job-8\""));
  CHECK(ends[3].code == Errc::authentication);
  CHECK_THAT(ends[3].text, ContainsSubstring("attempt 0, wanted 4"));
}

TEST_CASE("a wrong key file is told to its owner, and the job goes on", "[runtime][bootstrap]") {
  const TemporaryDirectory directory;
  const auto key_file = [&](const std::string& name, char digit) {
    std::ofstream(directory / name) << std::string(64, digit);
    ::chmod((directory / name).c_str(), 0600);
    Config config = patient();
    config.job_key_file = directory / name;
    return config;
  };
  const Config right = key_file("right", 'a');
  const Config wrong = key_file("wrong", 'b');
  const MeetingPoint point = by_tcp();
  std::latch tried(1);
  const auto ends = run({[&] { meet_and_part(member(0, 2, point), right); },
                         [&] {
                           tried.wait();
                           meet_and_part(member(1, 2, point), right);
                         },
                         [&] {
                           const auto counted = std::shared_ptr<void>(nullptr, [&](void*) { tried.count_down(); });
                           Control control(member(1, 2, point), wrong);
                         }});
  CHECK(ends[0].text == "");
  CHECK(ends[1].text == "");
  CHECK(ends[2].code == Errc::authentication);
  CHECK_THAT(ends[2].text, ContainsSubstring("wrong key"));
}

TEST_CASE("a port that somebody else has is named, with what answers there", "[runtime][bootstrap]") {
  const Descriptor foreign = listen_on({asio::ip::make_address("127.0.0.1"), 0});
  const MeetingPoint point = by_tcp("127.0.0.1", port_of(foreign));
  // It answers as a web server would, whoever asks.
  const auto serve = [&] {
    for (int served = 0; served < 2;) {
      const Descriptor client(::accept4(foreign.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) {
        std::this_thread::yield();
        continue;
      }
      const std::string words = "HTTP/1.1 400 Bad Request\r\n";
      ::send(client.get(), words.data(), words.size(), MSG_NOSIGNAL);
      char byte;
      while (::recv(client.get(), &byte, 1, 0) > 0) {
      }
      ++served;
    }
  };
  const auto ends = run({[&] { meet_and_part(member(0, 2, point), patient()); },
                         [&] { meet_and_part(member(1, 2, point), patient()); }, serve});
  for (const std::size_t rank : {0u, 1u}) {
    CHECK(ends[rank].code == Errc::address_in_use);
    CHECK_THAT(ends[rank].text, ContainsSubstring(std::to_string(point.port)));
    CHECK_THAT(ends[rank].text, ContainsSubstring("HTTP/1.1 400 Bad"));
  }
}

TEST_CASE("without a key nothing but loopback is listened on or called", "[runtime][bootstrap]") {
  const int rank = GENERATE(0, 1);
  const MeetingPoint point = by_tcp("192.0.2.1", 4711);
  const End end = run({[&] { meet_and_part(member(rank, 2, point), patient(50ms)); }})[0];
  CHECK(end.code == Errc::bad_configuration);
  CHECK_THAT(end.text, ContainsSubstring("192.0.2.1 is not loopback and there is no job key") &&
                           ContainsSubstring("RONDO_INSECURE=1"));
}

TEST_CASE("RONDO_INSECURE=1 goes without a key, with a warning", "[runtime][bootstrap]") {
  Config config = patient(50ms);
  config.insecure = true;
  std::vector<std::string> lines;
  const Log log(rondo::LogLevel::warn, 0, [&](rondo::LogLevel, std::string_view line) { lines.emplace_back(line); });
  // Documentation's own network is no address of any host, so that nothing is opened.
  const End end = run({[&] { Control control(member(0, 2, by_tcp("192.0.2.1", 4711)), config, log); }})[0];
  CHECK_THAT(end.text, ContainsSubstring("not an address of this host"));
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], ContainsSubstring("not authenticated"));
}

TEST_CASE("a stale meeting file is survived", "[runtime][bootstrap]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "meet";
  // An earlier job left its note, and somebody else's hub answers at its address now.
  asio::io_context context(1);
  Hub::Job other;
  other.id = "another";
  other.size = 2;
  other.key = JobKey::random();
  Hub stale(context, other);
  MeetingNote note;
  note.nonce = "0011";
  note.key = JobKey::random();
  note.address = stale.listen_unix(fresh_name());
  std::thread serve([&] { context.run(); });
  std::string content;
  {
    MeetingFile file(path);
    file.write(note);
    std::ifstream in(path);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(path) << content;

  std::promise<void> tried;
  const Log log = when_it_must_wait(tried);
  const auto ends = run({[&] {
                           tried.get_future().wait();
                           meet_and_part(member(0, 2, by_file(path)), patient());
                         },
                         [&] {
                           Control control(member(1, 2, by_file(path)), patient(), log);
                           control.join("address of 1");
                           control.goodbye();
                         }});
  for (const End& end : ends) CHECK(end.text == "");
  context.stop();
  serve.join();
  std::ifstream in(path);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}).empty());
}

TEST_CASE("a job of a file has a key of its own", "[runtime][bootstrap]") {
  const TemporaryDirectory directory;
  const MeetingPoint point = by_file(directory / "meet");
  std::vector<JobKey> keys(2);
  std::vector<std::string> jobs(2);
  const auto body = [&](int rank) {
    Control control(member(rank, 2, point), patient());
    keys[static_cast<std::size_t>(rank)] = control.key();
    jobs[static_cast<std::size_t>(rank)] = control.job_id();
    control.join("");
    control.goodbye();
  };
  for (const End& end : run({[&] { body(0); }, [&] { body(1); }})) CHECK(end.text == "");
  CHECK(keys[0].present);
  CHECK(keys[0].bytes == keys[1].bytes);
  CHECK(jobs[0] == jobs[1]);
  CHECK_THAT(jobs[0], Catch::Matchers::StartsWith("job-7/"));
}
