#include "runtime/meeting_point.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <rondo/error.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;

namespace {

const std::string kDigits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

void write_file(const std::string& path, const std::string& content, mode_t mode = 0600) {
  std::ofstream(path, std::ios::trunc) << content;
  ::chmod(path.c_str(), mode);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename F>
std::string rejection(F body, Errc code = Errc::bad_configuration) {
  try {
    body();
  } catch (const rondo::Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "accepted";
}

MeetingNote sample() {
  MeetingNote note;
  note.address = "unix:@rondo-x";
  note.nonce = "0011";
  note.key = JobKey::random();
  return note;
}

}  // namespace

TEST_CASE("a job key file gives its 32 bytes", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  write_file(directory / "key", kDigits + "\n");
  const JobKey key = read_job_key(directory / "key");
  CHECK(key.present);
  for (std::size_t i = 0; i < JobKey::kBytes; ++i) CHECK(key.bytes[i] == i);
}

TEST_CASE("a job key file that others could read, or that is none, is refused", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& name) { return rejection([&] { read_job_key(directory / name); }); };
  write_file(directory / "open", kDigits, 0644);
  CHECK_THAT(refused("open"), ContainsSubstring("got mode 0644, wanted 0600"));
  write_file(directory / "key", kDigits);
  REQUIRE(::symlink((directory / "key").c_str(), (directory / "link").c_str()) == 0);
  CHECK_THAT(refused("link"), ContainsSubstring("symbolic link"));
  CHECK_THAT(refused("absent"), ContainsSubstring("no such file"));
  ::mkdir((directory / "folder").c_str(), 0600);
  CHECK_THAT(refused("folder"), ContainsSubstring("wanted a regular file"));
  ::mkfifo((directory / "pipe").c_str(), 0600);
  CHECK_THAT(refused("pipe"), ContainsSubstring("wanted a regular file"));
  for (const std::string& content : {std::string{}, kDigits.substr(1), kDigits + "0", "g" + kDigits.substr(1)}) {
    write_file(directory / "bad", content);
    const std::string text = refused("bad");
    CHECK_THAT(text, ContainsSubstring("wanted 64 hex digits"));
    CHECK_THAT(text, !ContainsSubstring(kDigits.substr(2, 20)));
  }
}

TEST_CASE("a key file of another user is refused", "[runtime][meeting_point]") {
  if (::geteuid() != 0) return rondo::testing::skipped("only root can make one");
  const TemporaryDirectory directory;
  write_file(directory / "key", kDigits);
  REQUIRE(::chown((directory / "key").c_str(), 65534, 65534) == 0);
  CHECK_THAT(rejection([&] { read_job_key(directory / "key"); }), ContainsSubstring("got owner uid 65534, wanted 0"));
}

TEST_CASE("what rank 0 writes is what the others read", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "meet";
  CHECK_FALSE(read_meeting_file(path));
  const MeetingNote note = sample();
  {
    MeetingFile file(path);
    CHECK_FALSE(read_meeting_file(path));
    file.write(note);
    CHECK(read_meeting_file(path) == note);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK(read_file(path).empty());
}

TEST_CASE("a half-written note is not there yet", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "meet";
  std::string whole;
  {
    MeetingFile file(path);
    file.write(sample());
    whole = read_file(path);
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(path, whole.substr(0, length));
    CHECK_FALSE(read_meeting_file(path));
  }
  write_file(path, whole);
  CHECK(read_meeting_file(path));
  write_file(path, whole + "more");
  CHECK_FALSE(read_meeting_file(path));
}

TEST_CASE("a file that a living rank 0 holds is in use, what it left is not", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "meet";
  {
    MeetingFile first(path);
    first.write(sample());
    CHECK_THAT(rejection([&] { MeetingFile second(path); }, Errc::address_in_use), ContainsSubstring("in use"));
    CHECK(read_meeting_file(path));
  }
  write_file(path, "rondo meeting 1\nfrom an earlier job");
  MeetingFile next(path);
  next.write(sample());
  CHECK(read_meeting_file(path));
}

TEST_CASE("no file of somebody else is taken for a meeting file", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "precious";
  const std::string content = GENERATE(as<std::string>(), "precious\n", "r", "rondo meeting 2\n");
  write_file(path, content);
  const bool begins_alike = content == "r";  // as one that was being written
  CHECK_THAT(rejection([&] { MeetingFile file(path); }), ContainsSubstring(begins_alike ? "" : "something else in it"));
  if (!begins_alike) CHECK_THAT(rejection([&] { read_meeting_file(path); }), ContainsSubstring("something else in it"));
  std::ifstream in(path);
  const std::string now(std::istreambuf_iterator<char>(in), {});
  CHECK(now == (begins_alike ? "" : content));
}

TEST_CASE("a meeting file behind a link, or open to others, is refused", "[runtime][meeting_point]") {
  const TemporaryDirectory directory;
  write_file(directory / "target", "");
  REQUIRE(::symlink((directory / "target").c_str(), (directory / "link").c_str()) == 0);
  CHECK_THAT(rejection([&] { MeetingFile file(directory / "link"); }), ContainsSubstring("symbolic link"));
  CHECK_THAT(rejection([&] { read_meeting_file(directory / "link"); }), ContainsSubstring("symbolic link"));
  write_file(directory / "open", "", 0666);
  CHECK_THAT(rejection([&] { MeetingFile file(directory / "open"); }), ContainsSubstring("got mode 0666, wanted 0600"));
}
