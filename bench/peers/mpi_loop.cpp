// rondo-bench's measurements on MPI, for comparison:
//   mpirun -n 2 --mca btl self,tcp --mca btl_tcp_if_include lo mpi_loop all_reduce --sizes 8,64K,16M

#include <mpi.h>

#include <cstdlib>

#include "bench/command.hpp"
#include "bench/peers/peer.hpp"
#include "bench/report.hpp"

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

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

int mpi_command(const std::vector<std::string>& arguments) {
  const Settings settings = parse_settings(arguments);
  check_peer_settings(settings, "MPI");
  MpiFabric fabric;
  const char* const chosen = std::getenv("OMPI_MCA_btl");
  const auto sum_call = [](std::span<float> in, std::span<float> out) {
    return [in, out] { MPI_Allreduce(in.data(), out.data(), count_of(in), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
  };
  return run_subject(
      fabric,
      peer_subject(library_version(), chosen == nullptr ? "default" : chosen, MpiWire{}, fabric, settings, sum_call),
      settings);
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int status = rondo::bench::run_command("mpi_loop", argc, argv, rondo::bench::mpi_command);
  MPI_Finalize();
  return status;
}
