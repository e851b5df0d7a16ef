// Blocking point-to-point communication. `send` returns when the data may be changed again, `recv` when it is
// there.
//
//     rondo-run -n 4 blocking_send_recv

#include <span>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

int main() {
  auto world = rondo::init();
  const int rank = world.rank();
  const int size = world.size();

  // A tensor goes from rank to rank. Each waits for it, adds one, and passes it on.
  std::vector<float> tensor(3, 0);
  if (rank > 0) world.recv(std::span(tensor), rank - 1);
  for (float& value : tensor) value += 1;
  if (rank + 1 < size) world.send(std::span(tensor), rank + 1);
  fmt::print("rank {} has data {}\n", rank, tensor[0]);

  // Everybody sends to the next and receives from the previous at the same time. With `send` first and `recv`
  // second all ranks would wait in `send` for each other once the data is too large to be kept on the way, until time
  // is up: `sendrecv` does both at once.
  const std::vector<int> out{rank * 10};
  std::vector<int> in(1);
  world.sendrecv(std::span(out), (rank + 1) % size, std::span(in), (rank + size - 1) % size);
  fmt::print("rank {} passed on {} and got {}\n", rank, out[0], in[0]);

  // Tags tell messages apart, and the status tells what came: here rank 0 takes whatever comes first.
  const rondo::Tag greeting{7};
  if (rank > 0) {
    const std::vector<char> hello(static_cast<std::size_t>(rank), '!');
    world.send(std::span(hello), 0, greeting);
  } else {
    std::vector<char> any(static_cast<std::size_t>(size));
    std::size_t letters = 0;
    for (int i = 1; i < size; ++i) {
      const rondo::Status status = world.recv(std::span(any), rondo::any_source, greeting);
      letters += status.count<char>();
    }
    fmt::print("rank 0 got {} greetings, {} letters in all\n", size - 1, letters);
  }
}
