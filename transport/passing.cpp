#include "transport/passing.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>

namespace rondo::detail {
namespace {

using PassedDescriptor = std::array<char, CMSG_SPACE(sizeof(int))>;

}  // namespace

bool send_with_descriptor(const Descriptor& socket, std::span<const std::byte> bytes, int descriptor) noexcept {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) PassedDescriptor control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

ssize_t receive_with_descriptor(const Descriptor& socket, std::span<std::byte> bytes, Descriptor& descriptor) noexcept {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) PassedDescriptor control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const rights = got > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(rights), sizeof received);
    descriptor = Descriptor(received);
  }
  return got;
}

}  // namespace rondo::detail
