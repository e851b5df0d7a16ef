#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "runtime/group.hpp"

// What a caller of a message may have got wrong. Each throws Error{invalid_argument}, naming the operation.

namespace rondo::detail {

/// ": was it negative (-3)?", where such a number became this count.
std::string if_negative(std::size_t count);

[[noreturn]] void refuse_rank(const Group& group, int rank, const char* operation, const char* what);
[[noreturn]] void refuse_destination(const Group& group, int rank, const char* operation);
[[noreturn]] void refuse_any_tag(const Group& group, const char* operation);
[[noreturn]] void refuse_buffer(const Group& group, std::span<const std::byte> data, const char* operation);

inline void check_destination(const Group& group, int rank, const char* operation) {
  if (!group.has(rank)) refuse_destination(group, rank, operation);
}

inline void check_source(const Group& group, int rank, const char* operation) {
  if (rank != any_source && !group.has(rank)) refuse_rank(group, rank, operation, "source");
}

inline void check_tag(const Group& group, Tag tag, const char* operation) {
  if (tag == any_tag) refuse_any_tag(group, operation);
}

/// A negative number that became a count is larger than any buffer.
inline void check_buffer(const Group& group, std::span<const std::byte> data, const char* operation) {
  constexpr auto kLargest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (data.empty() || (data.data() != nullptr && data.size() <= kLargest)) return;
  refuse_buffer(group, data, operation);
}

/// Of a sendrecv.
void check_apart(const Group& group, std::span<const std::byte> out, std::span<const std::byte> in);

}  // namespace rondo::detail
