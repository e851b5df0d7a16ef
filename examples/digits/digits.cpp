#include "digits.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "idx_file.hpp"

namespace {

// Of MNIST's pixels, from 0 to 1: what goes into the network lies around 0, with a deviation of 1.
constexpr float kMean = 0.1307F;
constexpr float kDeviation = 0.3081F;

std::filesystem::path find(const std::filesystem::path& directory, const std::string& name, const std::string& type) {
  const auto dotted = directory / (name + "." + type);
  return std::filesystem::exists(dotted) ? dotted : directory / (name + "-" + type);
}

}  // namespace

Digits pick(const Digits& digits, std::span<const std::size_t> indices) {
  Digits some{.height = digits.height, .width = digits.width, .pixels = {}, .labels = {}};
  const auto size = digits.picture_size();
  some.pixels.reserve(indices.size() * size);
  some.labels.reserve(indices.size());
  for (const auto index : indices) {
    const auto picture = std::span(digits.pixels).subspan(index * size, size);
    some.pixels.insert(some.pixels.end(), picture.begin(), picture.end());
    some.labels.push_back(digits.labels[index]);
  }
  return some;
}

Digits load_digits(const std::filesystem::path& directory, const std::string& set) {
  const auto images_path = find(directory, set + "-images", "idx3-ubyte");
  const auto labels_path = find(directory, set + "-labels", "idx1-ubyte");
  const auto images = read_idx(images_path, 3);
  auto labels = read_idx(labels_path, 1);
  if (labels.shape[0] != images.shape[0]) {
    throw std::runtime_error(fmt::format("{}: got {} labels, wanted one for each of {} images", labels_path.string(),
                                         labels.shape[0], images.shape[0]));
  }
  if (images.bytes.empty()) throw std::runtime_error(fmt::format("{}: holds no digits", images_path.string()));
  const auto bad = std::find_if(labels.bytes.begin(), labels.bytes.end(), [](auto label) { return label > 9; });
  if (bad != labels.bytes.end()) {
    throw std::runtime_error(
        fmt::format("{}: got label {}, wanted a digit from 0 to 9", labels_path.string(), int{*bad}));
  }

  Digits digits{.height = images.shape[1], .width = images.shape[2], .pixels = {}, .labels = {}};
  digits.pixels.resize(images.bytes.size());
  std::transform(images.bytes.begin(), images.bytes.end(), digits.pixels.begin(),
                 [](std::uint8_t byte) { return (static_cast<float>(byte) / 255 - kMean) / kDeviation; });
  digits.labels = std::move(labels.bytes);
  return digits;
}
