#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/control.hpp"
#include "runtime/deadline_wait.hpp"
#include "runtime/hub_call.hpp"
#include "runtime/hub_thread.hpp"

// How a rank gets to its hub: by an inherited descriptor, by being the hub, or by calling it until it answers.

namespace rondo::detail {
namespace {

using namespace std::chrono_literals;
constexpr Duration kFirstPause = 5ms;
constexpr Duration kLongestPause = 250ms;
constexpr Duration kHolderPatience = 1s;  // to ask who holds our port
constexpr int kStrangerPatience = 2;      // handshake timeouts
constexpr std::string_view kUnixPrefix = "unix:@";

Time now() { return std::chrono::steady_clock::now(); }

/// What the hub's verdict is to the user.
Errc code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::duplicate_rank: return Errc::duplicate_rank;
    case Verdict::wrong_key:
    case Verdict::other_job:
    case Verdict::other_attempt:
    case Verdict::other_version: return Errc::authentication;
    case Verdict::other_size:
    case Verdict::wrong_rank: return Errc::bad_configuration;
    case Verdict::other_role:
    case Verdict::garbage: return Errc::address_in_use;
    default: return Errc::bootstrap_failed;
  }
}

/// Whether to call again. A file may still name the hub of an earlier job, and whoever has its address now.
bool may_change(Verdict verdict, MeetingPoint::Kind kind) {
  if (verdict == Verdict::pending || verdict == Verdict::closing) return true;
  const Errc code = code_of(verdict);
  return kind == MeetingPoint::Kind::file && (code == Errc::authentication || code == Errc::address_in_use);
}

std::string random_nonce() {
  const JobKey random = JobKey::random();
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", random.bytes[i]);
  return text;
}

}  // namespace

Control::Control(const Identity& identity, const Config& config, Log log)
    : identity_(identity),
      config_(config),
      log_(std::move(log)),
      deadline_(now() + std::min<Duration>(config.init_timeout, std::chrono::hours(24 * 365))),
      job_id_(identity.job_id),
      attempt_(identity.attempt),
      reader_(static_cast<std::size_t>(identity.size) * (ControlReader::kMaxAddresses + 4) +
              2 * ControlReader::kMaxText) {
  const auto kind = identity_.meeting.kind;
  if (kind == MeetingPoint::Kind::none) return;
  if (kind == MeetingPoint::Kind::descriptor) {
    take_inherited();
    return;
  }
  if (!config_.job_key_file.empty()) key_ = read_job_key(config_.job_key_file);
  if (identity_.rank == 0) {
    start_hub();
  } else {
    find_hub();
  }
}

void Control::take_inherited() {
  const int fd = identity_.meeting.descriptor;
  int domain = 0;
  socklen_t size = sizeof domain;
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      domain != AF_UNIX) {
    throw Error(
        Errc::bad_configuration,
        fmt::format("RONDO_CONTROL_FD: descriptor {} is no connection to the launcher: it was closed, or taken by "
                    "an earlier init of this process",
                    fd));
  }
  // Under another number, so that another init of this process finds nothing here.
  const Descriptor inherited(fd);
  socket_ = Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  take_welcome();
}

/// The hub speaks first on connections that it knows.
void Control::take_welcome() {
  ControlMessage message = receive(deadline_);
  if (const auto* notice = std::get_if<Notice>(&message); notice != nullptr && notice->kind == Notice::Kind::abort) {
    throw Error(notice->code, notice->text);
  }
  const auto* welcome = std::get_if<Welcome>(&message);
  const bool inherited = identity_.meeting.kind == MeetingPoint::Kind::descriptor;
  if (welcome == nullptr && !inherited) throw Error(Errc::protocol, "the hub's first message is no welcome");
  if (welcome == nullptr) {
    throw Error(
        Errc::bad_configuration,
        fmt::format("rank {} of this job has met the others already, in an earlier process of the same command: "
                    "the ranks that rondo-run starts meet once",
                    identity_.rank));
  }
  const bool same_ranks = welcome->rank == identity_.rank && welcome->size == identity_.size;
  const bool same_job = identity_.job_id.empty() || identity_.meeting.kind == MeetingPoint::Kind::file ||
                        (welcome->job_id == identity_.job_id && welcome->attempt == identity_.attempt);
  if (!same_ranks || !same_job) {
    throw Error(
        Errc::bad_configuration,
        fmt::format("contradiction: the environment says rank {} of {} in job \"{}\" attempt {}, the launcher's "
                    "descriptor says rank {} of {} in job \"{}\" attempt {}",
                    identity_.rank, identity_.size, printable(identity_.job_id), identity_.attempt, welcome->rank,
                    welcome->size, printable(welcome->job_id), welcome->attempt));
  }
  key_ = welcome->key;
  job_id_ = welcome->job_id;
  attempt_ = welcome->attempt;
}

void Control::start_hub() {
  const MeetingPoint& point = identity_.meeting;
  MeetingNote note;
  if (point.kind == MeetingPoint::Kind::file) {
    try {
      meeting_file_.emplace(point.path);
    } catch (const Error& error) {
      if (error.code() != Errc::address_in_use) throw;
      name_holder(point, error.cause());
    }
    note.nonce = random_nonce();
    note.key = JobKey::random();
    key_ = note.key;
    job_id_ = fmt::format("{}/{}", identity_.job_id, note.nonce);
  }
  Hub::Job job;
  job.id = job_id_;
  job.attempt = attempt_;
  job.size = identity_.size;
  job.key = key_;
  job.deadline = config_.init_timeout;
  job.limits.handshake = config_.handshake_timeout;
  job.limits.half_open = config_.half_open_limit;
  auto hub = std::make_unique<HubThread>(std::move(job), log_);
  if (point.kind != MeetingPoint::Kind::file) {
    listen(*hub, point);
  } else {
    // One host shares an abstract name; several need to be told by which network.
    if (config_.interface.empty()) {
      note.address = hub->listen_unix("rondo-" + note.nonce);
    } else {
      note.address = hub->listen_tcp(interface_address(config_.interface).to_string(), 0);
      local_address_ = split_host_port(note.address, "hub").host;
    }
  }
  socket_ = hub->start();
  hub_ = std::move(hub);
  take_welcome();
  if (meeting_file_) meeting_file_->write(note);
}

void Control::listen(HubThread& hub, const MeetingPoint& point) {
  try {
    if (point.kind == MeetingPoint::Kind::unix_name) {
      hub.listen_unix(point.path);
      return;
    }
    for (const auto& endpoint : resolve(point.host, point.port)) check_secure(endpoint.address());
    local_address_ = split_host_port(hub.listen_tcp(point.host, point.port), "hub").host;
  } catch (const Error& error) {
    if (error.code() != Errc::address_in_use) throw;
    name_holder(point, error.cause());
  }
}

/// Somebody is where rank 0 should be: another rank 0 of this job, another job, or no rondo at all.
void Control::name_holder(const MeetingPoint& point, const std::string& cause) {
  std::string answer;
  config_.handshake_timeout = std::min(config_.handshake_timeout, kHolderPatience);
  try {
    // The hub lets nobody in as rank 0, whose connection it has from the start.
    try_hub(answer);
  } catch (const Error& error) {
    if (error.code() == Errc::duplicate_rank) throw;
    answer = error.cause();
  }
  throw Error(Errc::address_in_use, fmt::format("rank 0 cannot {} {}: {}; asked who it is: {}",
                                                point.kind == MeetingPoint::Kind::file ? "hold" : "listen on",
                                                to_string(point), cause, answer));
}

void Control::find_hub() {
  std::string cause;
  DeadlineWait wait;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (try_hub(cause)) return;
    if (now() + pause >= deadline_) break;
    wait.pause(now() + pause);
  }
  throw Error(Errc::bootstrap_failed,
              fmt::format("rank {} did not reach the hub at {} within {}; the last cause: {}", identity_.rank,
                          to_string(identity_.meeting), seconds_text(config_.init_timeout), cause));
}

/// One round over every address there is. Throws what will not change by trying again.
bool Control::try_hub(std::string& cause) {
  std::string host = identity_.meeting.host;
  std::uint16_t port = identity_.meeting.port;
  std::string name = identity_.meeting.path;
  bool by_name = identity_.meeting.kind == MeetingPoint::Kind::unix_name;
  if (identity_.meeting.kind == MeetingPoint::Kind::file) {
    const auto note = read_meeting_file(identity_.meeting.path);
    if (!note) {
      cause = "rank 0 has not written the file yet";
      return false;
    }
    key_ = note->key;
    job_id_ = fmt::format("{}/{}", identity_.job_id, note->nonce);
    by_name = note->address.starts_with(kUnixPrefix);
    if (by_name) {
      name = note->address.substr(kUnixPrefix.size());
    } else {
      const HostPort meeting = split_host_port(note->address, identity_.meeting.path);
      host = meeting.host;
      port = meeting.port;
    }
  }
  if (by_name) {
    sockaddr_un address{};
    const socklen_t length = unix_address(name, address);
    return try_address(reinterpret_cast<const sockaddr*>(&address), length, "unix:@" + name, cause);
  }
  std::vector<asio::ip::tcp::endpoint> endpoints;
  try {
    endpoints = resolve(host, port);  // each time: a name may come to mean another host
  } catch (const Error& error) {
    cause = error.cause();
    return false;
  }
  return std::any_of(endpoints.begin(), endpoints.end(), [&](const auto& endpoint) {
    check_secure(endpoint.address());
    return try_address(endpoint.data(), static_cast<socklen_t>(endpoint.size()), to_string(endpoint), cause);
  });
}

/// Who listens and says nothing may be a hub that has too many callers for a moment, or a program of somebody else: for
/// a while the two look the same. A file's address may be another the next time.
void Control::bear_stranger(const HubCall& call, Time called, const std::string& name) {
  const bool strange = call.connected && call.verdict == Verdict::pending;
  if (!strange || identity_.meeting.kind == MeetingPoint::Kind::file) {
    if (name == stranger_) stranger_.clear();
    return;
  }
  if (name != stranger_) {
    stranger_ = name;
    stranger_since_ = called;
  }
  const Duration borne = now() - stranger_since_;
  if (borne < kStrangerPatience * config_.handshake_timeout) return;
  throw Error(
      Errc::address_in_use,
      fmt::format("rank {} cannot join the hub at {}: {}, at every call for {}; wanted an answer of rondo's hub: "
                  "another program may hold this address",
                  identity_.rank, name, call.cause, seconds_text(borne)));
}

bool Control::try_address(const sockaddr* address, socklen_t length, const std::string& name, std::string& cause) {
  const Time called = now();
  HubCall call = call_hub(address, length, terms(), key_, std::min(deadline_, called + config_.handshake_timeout));
  if (call.verdict == Verdict::accepted) {
    socket_ = std::move(call.socket);
    end_when_host_is_lost(socket_.get());
    end_when_not_read(socket_.get());
    asio::ip::tcp::endpoint mine;
    auto size = static_cast<socklen_t>(mine.capacity());
    if (address->sa_family != AF_UNIX && ::getsockname(socket_.get(), mine.data(), &size) == 0) {
      local_address_ = mine.address().to_string();
    }
    return true;
  }
  if (cause.empty()) log_.debug("the hub is not there yet: {}: {}", name, call.cause);
  // A call that our deadline cut short tells less than the one before.
  if (cause.empty() || now() < deadline_) cause = fmt::format("{}: {}", name, call.cause);
  bear_stranger(call, called, name);
  if (may_change(call.verdict, identity_.meeting.kind)) return false;
  throw Error(code_of(call.verdict),
              fmt::format("rank {} cannot join the hub at {}: {}", identity_.rank, name, call.cause));
}

HandshakeTerms Control::terms() const {
  HandshakeTerms mine;
  mine.role = ConnectionRole::hub;
  mine.job_id = job_id_;
  mine.attempt = attempt_;
  mine.size = identity_.size;
  mine.rank = identity_.rank;
  mine.peer = kHubRank;
  return mine;
}

void Control::check_secure(const asio::ip::address& address) const {
  if (key_.present || address.is_loopback()) return;
  if (!config_.insecure) {
    throw Error(
        Errc::bad_configuration,
        fmt::format("{} is not loopback and there is no job key: anybody could join; wanted RONDO_JOB_KEY_FILE, or "
                    "RONDO_INSECURE=1 to go without",
                    address.to_string()));
  }
  if (identity_.rank == 0) log_.warn("connections on {} are not authenticated (RONDO_INSECURE=1)", address.to_string());
}

}  // namespace rondo::detail
