#include "runtime/meeting_point.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/endpoint.hpp"
#include "transport/printable.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

constexpr std::string_view kNoteHead = "rondo meeting 1\n";
constexpr std::string_view kNoteEnd = "end\n";
constexpr std::size_t kMaxFileBytes = 4096;

[[noreturn]] void reject(const std::string& what) { throw Error(Errc::bad_configuration, what); }

/// A secret lies in it: a regular file, ours, closed to others, not reached through a link.
Descriptor open_private(const std::string& path, int flags, std::string_view purpose) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file) {
    if (errno == ELOOP) reject(fmt::format("{} {}: got a symbolic link, wanted a file", purpose, printable(path)));
    if (errno == ENOENT && (flags & O_CREAT) == 0) return file;
    reject(fmt::format("{} {}: cannot open it: {}", purpose, printable(path), system_text(errno)));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) reject(fmt::format("{} {}: {}", purpose, printable(path), system_text(errno)));
  if (!S_ISREG(status.st_mode)) {
    reject(fmt::format("{} {}: got something else, wanted a regular file", purpose, printable(path)));
  }
  if (status.st_uid != ::geteuid()) {
    reject(fmt::format("{} {}: got owner uid {}, wanted {}", purpose, printable(path), status.st_uid, ::geteuid()));
  }
  if ((status.st_mode & 0777) != 0600) {
    reject(fmt::format("{} {}: got mode {:04o}, wanted 0600", purpose, printable(path), status.st_mode & 0777));
  }
  return file;
}

/// Up to one byte more than any file of ours has.
std::string read_all(int file) {
  std::string content(kMaxFileBytes + 1, '\0');
  std::size_t length = 0;
  while (length < content.size()) {
    const ssize_t got = ::pread(file, content.data() + length, content.size() - length, static_cast<off_t>(length));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  content.resize(length);
  return content;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<JobKey> key_from_hex(std::string_view text) {
  if (text.size() != 2 * JobKey::kBytes) return std::nullopt;
  JobKey key;
  for (std::size_t i = 0; i < JobKey::kBytes; ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  key.present = true;
  return key;
}

std::string hex_of(const JobKey& key) {
  std::string text;
  for (const auto byte : key.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// Takes the next line that starts with `name` and a space.
std::optional<std::string> take_line(std::string_view& rest, std::string_view name) {
  const auto end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  if (end == std::string_view::npos || !line.starts_with(name) || line.size() <= name.size() + 1) return std::nullopt;
  rest.remove_prefix(end + 1);
  return std::string(line.substr(name.size() + 1));
}

int parse_number(std::string_view text, std::string_view name, std::string_view who) {
  int number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < 0) {
    reject(fmt::format("{}: {} got \"{}\", wanted a number from 0", who, name, printable(text, 64)));
  }
  return number;
}

/// "rank=1&world_size=4"
void parse_query(Method& method, std::string_view query, std::string_view who) {
  while (!query.empty()) {
    const auto length = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, length);
    query.remove_prefix(std::min(length + 1, query.size()));
    if (item.starts_with("rank=")) {
      method.rank = parse_number(item.substr(5), "rank", who);
    } else if (item.starts_with("world_size=")) {
      method.size = parse_number(item.substr(11), "world_size", who);
    } else {
      reject(fmt::format("{}: got \"{}\", wanted rank= or world_size=", who, printable(item, 64)));
    }
  }
}

}  // namespace

std::string to_string(const MeetingPoint& point) {
  switch (point.kind) {
    case MeetingPoint::Kind::none: return "nowhere";
    case MeetingPoint::Kind::descriptor: return fmt::format("descriptor {}", point.descriptor);
    case MeetingPoint::Kind::tcp:
      return point.host.find(':') == std::string::npos
                 ? fmt::format("tcp://{}:{}", printable(point.host), point.port)
                 : fmt::format("tcp://[{}]:{}", printable(point.host), point.port);
    case MeetingPoint::Kind::unix_name: return fmt::format("unix:@{}", printable(point.path));
    case MeetingPoint::Kind::file: return fmt::format("file://{}", printable(point.path));
  }
  return "unknown";
}

Method parse_method(std::string_view text, std::string_view who) {
  Method method;
  const auto question = text.find('?');
  const std::string_view address = text.substr(0, question);
  if (question != std::string_view::npos) parse_query(method, text.substr(question + 1), who);
  if (address == "env://") {
    method.from_environment = true;
  } else if (address.starts_with("tcp://")) {
    HostPort meeting = split_host_port(address.substr(6), who);
    method.point.kind = MeetingPoint::Kind::tcp;
    method.point.host = std::move(meeting.host);
    method.point.port = meeting.port;
  } else if (address.starts_with("file:///") && address.size() > 8) {
    method.point.kind = MeetingPoint::Kind::file;
    method.point.path = address.substr(7);
  } else {
    reject(fmt::format("{}: got \"{}\", wanted env://, tcp://host:port or file:///path", who, printable(text, 64)));
  }
  return method;
}

JobKey read_job_key(const std::string& path) {
  constexpr std::string_view purpose = "job key file";
  const Descriptor file = open_private(path, O_RDONLY, purpose);
  if (!file) reject(fmt::format("{} {}: there is no such file", purpose, printable(path)));
  std::string content = read_all(file.get());
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r')) content.pop_back();
  const auto key = key_from_hex(content);
  // The content is a secret, or was meant to be one: never shown.
  if (!key) {
    reject(fmt::format("{} {}: got {} bytes, wanted {} hex digits", purpose, printable(path), content.size(),
                       2 * JobKey::kBytes));
  }
  return *key;
}

namespace {

/// What is in a meeting file; no file of somebody else is taken for one, and emptied.
std::string read_note(int file, const std::string& path) {
  const std::string content = read_all(file);
  const std::string_view head = std::string_view(content).substr(0, kNoteHead.size());
  if (kNoteHead.starts_with(head)) return content;
  reject(
      fmt::format("meeting file {}: got a file with something else in it, wanted none, an empty one, or that of an "
                  "earlier job",
                  printable(path)));
}

}  // namespace

MeetingFile::MeetingFile(const std::string& path) : file_(open_private(path, O_RDWR | O_CREAT, "meeting file")) {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
    read_note(file_.get(), path);
    return;
  }
  const int error = errno;
  file_.reset();
  if (error != EWOULDBLOCK)
    reject(fmt::format("meeting file {}: cannot lock it: {}", printable(path), system_text(error)));
  throw Error(Errc::address_in_use,
              fmt::format("meeting file {} is in use: rank 0 of a job that lives holds it", printable(path)));
}

MeetingFile::~MeetingFile() {
  if (!file_) return;
  // When this fails, a stale note stays: readers survive that.
  [[maybe_unused]] const int emptied = ::ftruncate(file_.get(), 0);
}

void MeetingFile::write(const MeetingNote& note) {
  const std::string content = fmt::format("{}address {}\nnonce {}\nkey {}\n{}", kNoteHead, note.address, note.nonce,
                                          hex_of(note.key), kNoteEnd);
  // Readers do not lock: what lacks its last line is not there yet.
  const bool written = ::ftruncate(file_.get(), 0) == 0 &&
                       ::pwrite(file_.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  if (!written) throw Error(Errc::system, fmt::format("cannot write the meeting file: {}", system_text(errno)));
}

std::optional<MeetingNote> read_meeting_file(const std::string& path) {
  const Descriptor file = open_private(path, O_RDONLY, "meeting file");
  if (!file) return std::nullopt;
  const std::string content = read_note(file.get(), path);
  std::string_view rest = content;
  if (!rest.starts_with(kNoteHead)) return std::nullopt;
  rest.remove_prefix(kNoteHead.size());
  const auto address = take_line(rest, "address");
  const auto nonce = take_line(rest, "nonce");
  const auto digits = take_line(rest, "key");
  const auto key = key_from_hex(digits.value_or(""));
  if (!address || !nonce || !key || rest != kNoteEnd) return std::nullopt;
  return MeetingNote{*address, *nonce, *key};
}

}  // namespace rondo::detail
