// Rank 1 sends to rank 0, which has no file descriptor left for the connection. Both print what becomes of it.
#include <fcntl.h>

#include <cstdio>
#include <span>

#include <rondo/rondo.hpp>

int main() {
  auto world = rondo::init();
  int value = 0;
  try {
    if (world.rank() == 0) {
      while (::fcntl(0, F_DUPFD_CLOEXEC, 0) >= 0) continue;
      world.recv(std::span(&value, 1), 1);
    } else {
      world.send(std::span(&value, 1), 0);
    }
  } catch (const rondo::Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
