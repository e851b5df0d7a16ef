#include "runtime/notice.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

namespace rondo::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

/// On the wire after the length. Kinds of notices are their own numbers; the others follow far behind.
enum Kind : std::uint8_t { kWelcome = 64, kJoin, kTable };

class Writer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const std::size_t old = bytes_.size();
    bytes_.resize(old + sizeof value);
    std::memcpy(bytes_.data() + old, &value, sizeof value);
  }
  void text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  std::string message() {
    const auto body = static_cast<std::uint32_t>(bytes_.size() - sizeof(std::uint32_t));
    std::memcpy(bytes_.data(), &body, sizeof body);
    return std::move(bytes_);
  }

 private:
  std::string bytes_ = std::string(sizeof(std::uint32_t), '\0');
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(std::size_t limit) {
    const auto length = get<std::uint32_t>();
    if (length > limit)
      throw Error(Errc::protocol, fmt::format("control message: got a text of {} bytes, wanted at "
                                              "most {}",
                                              length, limit));
    return std::string(take(length));
  }
  std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) {
      throw Error(Errc::protocol, fmt::format("control message: got {} more bytes, wanted {}", rest_.size(), bytes));
    }
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
};

template <typename T>
void write_list(Writer& out, const std::vector<T>& list) {
  const auto first = std::span(list).first(std::min(list.size(), ControlReader::kMaxAwaited));
  out.put(static_cast<std::uint32_t>(first.size()));
  for (const T& element : first) out.put(element);
}

// Grows with what is really there: a count from the wire reserves nothing.
template <typename T>
void read_list(Reader& in, std::vector<T>& list) {
  for (auto count = in.get<std::uint32_t>(); count > 0; --count) list.push_back(in.get<T>());
}

void write(Writer& out, const Notice& notice) {
  out.put(notice.kind);
  out.put(static_cast<std::int32_t>(notice.rank));
  out.put(notice.communicator);
  out.put(notice.number);
  out.put(notice.code);
  out.put(notice.call);
  out.text(std::string_view(notice.text).substr(0, ControlReader::kMaxText));
  write_list(out, notice.awaited);
  write_list(out, notice.before);
}

void write(Writer& out, const Welcome& welcome) {
  out.put(kWelcome);
  out.put(Handshake::kVersion);
  out.put(static_cast<std::uint8_t>(welcome.key.present ? 1 : 0));
  out.put(welcome.key.bytes);
  out.text(std::string_view(welcome.job_id).substr(0, ControlReader::kMaxText));
  out.put(welcome.attempt);
  out.put(static_cast<std::int32_t>(welcome.rank));
  out.put(static_cast<std::int32_t>(welcome.size));
}

void write(Writer& out, const Join& join) {
  out.put(kJoin);
  out.text(join.addresses);
  out.put(join.patience_ms);
}

void write(Writer& out, const Table& table) {
  out.put(kTable);
  out.put(static_cast<std::uint32_t>(table.addresses.size()));
  for (const auto& addresses : table.addresses) out.text(addresses);
}

Notice read_notice(Reader& in, Notice::Kind kind) {
  Notice notice;
  notice.kind = kind;
  notice.rank = in.get<std::int32_t>();
  notice.communicator = in.get<std::uint64_t>();
  notice.number = in.get<std::uint64_t>();
  notice.code = in.get<Errc>();
  if (notice.code > Errc::cuda) throw Error(Errc::protocol, "control message: got an error code that does not exist");
  notice.call = in.get<Call>();
  notice.text = in.text(ControlReader::kMaxText);
  read_list(in, notice.awaited);
  read_list(in, notice.before);
  return notice;
}

Welcome read_welcome(Reader& in) {
  // First, so that what follows may differ in other versions.
  if (const auto version = in.get<std::uint16_t>(); version != Handshake::kVersion) {
    throw Error(Errc::authentication,
                fmt::format("other version: the launcher speaks version {}, wanted {}", version, Handshake::kVersion));
  }
  Welcome welcome;
  welcome.key.present = in.get<std::uint8_t>() != 0;
  welcome.key.bytes = in.get<decltype(welcome.key.bytes)>();
  welcome.job_id = in.text(ControlReader::kMaxText);
  welcome.attempt = in.get<std::uint32_t>();
  welcome.rank = in.get<std::int32_t>();
  welcome.size = in.get<std::int32_t>();
  return welcome;
}

Join read_join(Reader& in) {
  Join join;
  join.addresses = in.text(ControlReader::kMaxAddresses);
  join.patience_ms = in.get<std::uint64_t>();
  return join;
}

Table read_table(Reader& in) {
  Table table;
  // Grows with what is really there: a count from the wire reserves nothing.
  for (auto count = in.get<std::uint32_t>(); count > 0; --count) {
    table.addresses.push_back(in.text(ControlReader::kMaxAddresses));
  }
  return table;
}

ControlMessage read_message(std::string_view body) {
  Reader in(body);
  const auto kind = in.get<std::uint8_t>();
  ControlMessage message;
  if (kind >= static_cast<std::uint8_t>(Notice::Kind::failed) &&
      kind <= static_cast<std::uint8_t>(Notice::Kind::abort)) {
    message = read_notice(in, static_cast<Notice::Kind>(kind));
  } else if (kind == kWelcome) {
    message = read_welcome(in);
  } else if (kind == kJoin) {
    message = read_join(in);
  } else if (kind == kTable) {
    message = read_table(in);
  } else {
    throw Error(Errc::protocol, fmt::format("control message: got kind {}, which does not exist", kind));
  }
  if (in.left() != 0) throw Error(Errc::protocol, fmt::format("control message: got {} bytes too many", in.left()));
  return message;
}

}  // namespace

std::string_view to_string(Notice::Kind kind) noexcept {
  switch (kind) {
    case Notice::Kind::failed: return "failed";
    case Notice::Kind::stalled: return "stalled";
    case Notice::Kind::resumed: return "resumed";
    case Notice::Kind::waits: return "waits";
    case Notice::Kind::goodbye: return "goodbye";
    case Notice::Kind::absent: return "absent";
    case Notice::Kind::poisoned: return "poisoned";
    case Notice::Kind::circle: return "circle";
    case Notice::Kind::dead: return "dead";
    case Notice::Kind::left: return "left";
    case Notice::Kind::abort: return "abort";
  }
  return "unknown";
}

std::string encode(const ControlMessage& message) {
  Writer out;
  std::visit([&](const auto& content) { write(out, content); }, message);
  return out.message();
}

void ControlReader::feed(std::span<const std::byte> bytes) {
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = 0;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<ControlMessage> ControlReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof length);
  if (length > limit_) {
    throw Error(Errc::protocol,
                fmt::format("control message: got a length of {} bytes, wanted at most {}", length, limit_));
  }
  if (rest.size() - sizeof length < length) {
    buffer_.erase(0, taken_);
    taken_ = 0;
    return std::nullopt;
  }
  taken_ += sizeof length + length;
  return read_message(rest.substr(sizeof length, length));
}

}  // namespace rondo::detail
