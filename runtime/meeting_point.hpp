#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/descriptor.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {

/// Where the ranks of a job find the hub.
struct MeetingPoint {
  enum class Kind : std::uint8_t {
    none,        ///< a world of 1 needs none
    descriptor,  ///< a connection to the launcher's hub, inherited
    tcp,         ///< rank 0 listens on host:port
    unix_name,   ///< rank 0 listens on an abstract Unix socket: one host
    file,        ///< rank 0 writes its address into a file
  };

  Kind kind = Kind::none;
  int descriptor = -1;
  std::string host;  ///< a name, or a numeric address without brackets
  std::uint16_t port = 0;
  std::string path;  ///< of the file; or the abstract name

  friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};

/// "tcp://127.0.0.1:4711", "unix:@rondo-0-77", "file:///tmp/meet", "descriptor 5".
std::string to_string(const MeetingPoint& point);

/// A method as the user writes it.
struct Method {
  bool from_environment = false;  ///< env://
  MeetingPoint point;             ///< tcp:// and file://
  std::optional<int> rank;        ///< ?rank=
  std::optional<int> size;        ///< ?world_size=
};

/// Throws Error{bad_configuration} that shows the text and what is wanted. `who` names where it came from.
Method parse_method(std::string_view text, std::string_view who);

/// The job key from a file: mode 0600, owned by this user, no link, 64 hex digits. Throws
/// Error{bad_configuration}.
JobKey read_job_key(const std::string& path);

/// What rank 0 leaves in the file of a file:// meeting.
struct MeetingNote {
  std::string address;  ///< "127.0.0.1:4711" or "unix:@name"
  std::string nonce;    ///< of this meeting: hex digits
  JobKey key;

  friend bool operator==(const MeetingNote& a, const MeetingNote& b) {
    return a.address == b.address && a.nonce == b.nonce && a.key.bytes == b.key.bytes;
  }
};

/// Rank 0's end of a file:// meeting: holds the file locked for as long as the job lives, and empties it at
/// the end.
class MeetingFile {
 public:
  /// Creates the file (0600), or takes over what an earlier job left. Throws Error{address_in_use} where a
  /// job that lives holds it, Error{bad_configuration} where it is a link, or somebody else's, or readable by
  /// others.
  explicit MeetingFile(const std::string& path);
  MeetingFile(MeetingFile&&) noexcept = default;
  MeetingFile& operator=(MeetingFile&&) noexcept = default;
  ~MeetingFile();

  void write(const MeetingNote& note);

 private:
  Descriptor file_;
};

/// What the file says now; nothing while it is absent, empty or half written. It may be of an earlier job:
/// only a hub that answers the handshake proves it. Throws Error{bad_configuration} as MeetingFile does.
std::optional<MeetingNote> read_meeting_file(const std::string& path);

}  // namespace rondo::detail
