// Distributed training on handwritten digits: every rank has a copy of the network and a part of the data; in every
// step the gradients are averaged over the ranks, so all copies stay the same. One rank or many, the global batches are
// the same, and so are the losses, up to the rounding of sums that are added in another order. (Training magnifies
// that, on one rank as on many: nothing is seen of it in the few steps on the small set that comes with the tree, about
// a percent of the loss after the thousand steps of an epoch over 60000 digits.)
//
//     rondo-run -n 4 distributed_sgd
//     rondo-run -n 4 distributed_sgd --data DIR      # with the four files of MNIST, unpacked
//     rondo-run -n 4 distributed_sgd --device cuda   # gradients averaged in the memory of CUDA devices

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "digits/digits.hpp"
#include "digits/gradient_buckets.hpp"
#include "digits/idx_file.hpp"
#include "digits/network.hpp"
#include "digits/partition.hpp"

namespace {

struct Settings {
  std::filesystem::path data = RONDO_EXAMPLES_DATA;
  int epochs = 6;
  std::size_t batch = 64;
  float lr = 0.03F;
  float momentum = 0.9F;
  std::uint32_t seed = 1;
  std::size_t bucket_kib = 16;
  std::string device = "cpu";
  std::filesystem::path save;
};

/// Stochastic gradient descent with momentum.
class Sgd {
 public:
  Sgd(std::size_t parameters, float lr, float momentum) : velocity_(parameters), lr_(lr), momentum_(momentum) {}

  void step(std::span<float> parameters, std::span<const float> gradients) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = momentum_ * velocity_[i] + gradients[i];
      parameters[i] -= lr_ * velocity_[i];
    }
  }

 private:
  std::vector<float> velocity_;
  float lr_;
  float momentum_;
};

/// Trains for one epoch; returns the mean loss over the samples of all ranks.
double train_epoch(rondo::Communicator& world, Network& network, const Digits& digits, Partition& partition,
                   GradientBuckets& buckets, Sgd& sgd) {
  double loss = 0;
  partition.shuffle();
  for (std::size_t step = 0; step < partition.steps(); ++step) {
    loss += network.forward(pick(digits, partition.samples(step))).loss;

    // Divided by the samples of all ranks, the sum over the ranks is the mean, also where the shares are
    // uneven.
    const float scale = 1.0F / static_cast<float>(partition.global_count(step));
    network.backward(scale, [&](std::size_t begin) { buckets.ready(begin); });
    buckets.wait();
    sgd.step(network.parameters(), network.gradients());
  }
  rondo::all_reduce(world, std::span(&loss, 1), rondo::sum);
  return loss / static_cast<double>(digits.count());
}

/// The part of the held-out digits that the network recognizes. Each rank looks at its share of them.
double accuracy(rondo::Communicator& world, Network& network, const Digits& digits) {
  const auto share = share_of(digits.count(), world.rank(), world.size());
  std::vector<std::size_t> mine(share.end - share.begin);
  std::iota(mine.begin(), mine.end(), share.begin);
  std::int64_t correct = network.forward(pick(digits, mine)).correct;
  rondo::all_reduce(world, std::span(&correct, 1), rondo::sum);
  return static_cast<double>(correct) / static_cast<double>(digits.count());
}

void train(const Settings& settings) {
  const bool on_device = settings.device == "cuda";
  if (on_device && !rondo::cuda::available()) {
    throw std::runtime_error("--device cuda: there is no CUDA device: " + rondo::cuda::why_unavailable());
  }
  auto world = rondo::init();
  const bool speaks = world.rank() == 0;

  const auto digits = load_digits(settings.data, "train");
  const auto held_out = load_digits(settings.data, "t10k");
  Network network(digits.height, digits.width, settings.seed);
  Partition partition(digits.count(), settings.batch, settings.seed, world.rank(), world.size());
  GradientBuckets buckets(world, network.gradients(), settings.bucket_kib * 1024, on_device);
  Sgd sgd(network.parameters().size(), settings.lr, settings.momentum);

  // All copies start from the parameters of rank 0.
  rondo::broadcast(world, network.parameters(), 0);

  if (speaks) {
    fmt::print("{} digits of {} x {} pixels, {} held out; {} parameters in {} buckets; batch {} over {} rank{}\n",
               digits.count(), digits.height, digits.width, held_out.count(), network.parameters().size(),
               buckets.count(), settings.batch, world.size(), world.size() == 1 ? "" : "s");
  }
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = train_epoch(world, network, digits, partition, buckets, sgd);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const double recognized = accuracy(world, network, held_out);
    if (speaks) {
      fmt::print("epoch {:2}  loss {:.6f}  held-out accuracy {:.1f}%  {:.2f} s\n", epoch, loss, 100 * recognized,
                 taken.count());
    }
  }

  if (!settings.save.empty()) {
    rondo::barrier(world);  // when the file appears, every rank is done
    if (speaks) {
      write_idx(settings.save, network.parameters());
      fmt::print("saved {} parameters to {}\n", network.parameters().size(), settings.save.string());
    }
  }
}

/// For an option's value.
std::string check_positive(const std::string& text) {
  double value = 0;
  const bool is_number = CLI::detail::lexical_cast(text, value);
  return is_number && std::isfinite(value) && value > 0 ? "" : fmt::format("got {}, wanted a positive number", text);
}

/// The same: before anything is trained for it.
std::string check_place(const std::string& file) {
  const auto directory = std::filesystem::absolute(file).parent_path();
  return std::filesystem::is_directory(directory) ? "" : fmt::format("{} is not a directory", directory.string());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Trains a small network on handwritten digits, on as many ranks as rondo-run starts."};
  app.add_option("--data", settings.data, "directory with the four files of MNIST")->capture_default_str();
  app.add_option("--epochs", settings.epochs, "times through the data")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--batch", settings.batch, "digits in a step, of all ranks together")
      ->check(check_positive)
      ->capture_default_str();
  app.add_option("--lr", settings.lr, "learning rate")->check(check_positive)->capture_default_str();
  app.add_option("--momentum", settings.momentum, "of the descent")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--seed", settings.seed, "of the first parameters and the order of the digits")->capture_default_str();
  app.add_option("--bucket-kib", settings.bucket_kib, "size of a bucket of gradients, in KiB")
      ->check(check_positive)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--device", settings.device,
                 "where gradients are averaged: in the memory of the cpu or of cuda devices")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--save", settings.save, "write the parameters here, as a vector of floats in IDX format")
      ->check(check_place);
  try {
    app.parse(argc, argv);
    train(settings);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "distributed_sgd: {}\n", error.what());
    return 1;
  }
}
