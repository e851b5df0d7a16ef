// rondo-bench compare's loops on MPI; built once for every MPI that is there:
//   mpirun -n 2 openmpi_loop --loops all_reduce:8,latency:65536 --seconds 0.1

#include <mpi.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "bench/command.hpp"
#include "bench/compare/loop.hpp"
#include "bench/peers/peer.hpp"

namespace rondo::bench {
namespace {

// MPI 3 counts in int, so one message has at most 2^31 - 1 elements.
template <typename T>
int count_of(std::span<T> data) {
  return static_cast<int>(data.size());
}

class MpiFabric final : public Fabric {
 public:
  MpiFabric() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void fold(std::span<double> values, Fold how) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count_of(values), MPI_DOUBLE, how == Fold::max ? MPI_MAX : MPI_SUM,
                  MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

struct MpiWire {
  void send(std::span<const float> data, int to) {
    MPI_Send(data.data(), count_of(data), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  }
  void recv(std::span<float> data, int from) {
    MPI_Recv(data.data(), count_of(data), MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void send_window(std::span<const float> data, int to, int window) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(window));
    for (auto& request : requests) MPI_Isend(data.data(), count_of(data), MPI_FLOAT, to, 0, MPI_COMM_WORLD, &request);
    MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
  }
  void recv_window(std::span<float> data, int from, int window) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(window));
    const std::size_t count = data.size() / requests.size();
    for (std::size_t i = 0; i < requests.size(); ++i)
      MPI_Irecv(data.data() + i * count, static_cast<int>(count), MPI_FLOAT, from, 0, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
  }
};

PeerExercise::Call make_call(Operation operation, std::size_t block_count, Buffers<float>& buffers) {
  const float* const in = buffers.input().data();
  float* const out = buffers.output().data();
  const int block = static_cast<int>(block_count);
  const MPI_Comm world = MPI_COMM_WORLD;
  switch (operation) {
    case Operation::all_reduce: return [=] { MPI_Allreduce(in, out, block, MPI_FLOAT, MPI_SUM, world); };
    case Operation::reduce: return [=] { MPI_Reduce(in, out, block, MPI_FLOAT, MPI_SUM, 0, world); };
    case Operation::broadcast: return [=] { MPI_Bcast(out, block, MPI_FLOAT, 0, world); };
    case Operation::scatter: return [=] { MPI_Scatter(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, world); };
    case Operation::gather: return [=] { MPI_Gather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, world); };
    case Operation::all_gather: return [=] { MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world); };
    case Operation::reduce_scatter: return [=] { MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, world); };
    case Operation::all_to_all: return [=] { MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world); };
    default: return [=] { MPI_Barrier(world); };
  }
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  std::string line = all.substr(0, all.find_first_of(",\n"));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

int mpi_command(const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_host_loop_settings("mpi_loop", arguments);
  MpiFabric fabric;
  return run_loops(fabric, {"-", library_version()}, settings, [&fabric](const Settings& of_loop, const Shape& shape) {
    return peer_exercise(MpiWire{}, fabric, of_loop, shape,
                         [&](Buffers<float>& buffers) { return make_call(of_loop.operation, shape.count, buffers); });
  });
}

/// `--variable NAME`, without any ranks: prints the name if this MPI has such a control variable.
int variable_command(const std::string& name) {
  int provided = 0;
  int index = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  const bool found = MPI_T_cvar_get_index(name.c_str(), &index) == MPI_SUCCESS;
  if (found) fmt::print("{}\n", name);
  MPI_T_finalize();
  return kExitGood;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  using namespace rondo::bench;
  end_with_parent();
  if (argc == 3 && std::string(argv[1]) == "--variable") return variable_command(argv[2]);
  MPI_Init(&argc, &argv);
  const int status = run_command("mpi_loop", argc, argv, mpi_command);
  MPI_Finalize();
  return status;
}
