#include "runtime/message_arguments.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <rondo/error.hpp>

namespace rondo::detail {

std::string if_negative(std::size_t count) {
  const auto number = static_cast<std::ptrdiff_t>(count);
  return number < 0 ? fmt::format(": was it negative ({})?", number) : "";
}

void refuse_rank(const Group& group, int rank, const char* operation, const char* what) {
  const bool alone = group.id() == kWorldId && group.size() == 1;
  throw Error(Errc::invalid_argument,
              fmt::format("{} rank {} is not in the communicator: wanted 0 to {}{}", what, rank, group.size() - 1,
                          alone ? ", in a world of 1; rondo-run -n N starts N ranks" : ""),
              group.facts_of(operation, rank));
}

void refuse_destination(const Group& group, int rank, const char* operation) {
  if (rank != any_source) refuse_rank(group, rank, operation, "destination");
  throw Error(Errc::invalid_argument, "a message needs a rank that it goes to: any_source is for receives",
              group.facts_of(operation, rank));
}

void refuse_any_tag(const Group& group, const char* operation) {
  throw Error(Errc::invalid_argument, "a message needs a tag of its own: any_tag is for receives",
              group.facts_of(operation));
}

void refuse_buffer(const Group& group, std::span<const std::byte> data, const char* operation) {
  const std::string cause =
      data.data() == nullptr
          ? fmt::format("the buffer of {} bytes is at no address (nullptr)", data.size())
          : fmt::format("the buffer has {} bytes, more than memory can hold{}", data.size(), if_negative(data.size()));
  throw Error(Errc::invalid_argument, cause, group.facts_of(operation));
}

void check_apart(const Group& group, std::span<const std::byte> out, std::span<const std::byte> in) {
  const auto out_begin = reinterpret_cast<std::uintptr_t>(out.data());
  const auto in_begin = reinterpret_cast<std::uintptr_t>(in.data());
  const auto begin = std::max(out_begin, in_begin);
  const auto end = std::min(out_begin + out.size(), in_begin + in.size());
  if (begin >= end) return;
  throw Error(Errc::invalid_argument,
              fmt::format("out and in overlap by {} bytes (out: {} bytes at {:#x}, in: {} bytes at {:#x}), wanted no "
                          "overlap",
                          end - begin, out.size(), out_begin, in.size(), in_begin),
              group.facts_of("sendrecv"));
}

}  // namespace rondo::detail
