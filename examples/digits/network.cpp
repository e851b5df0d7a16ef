#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace {

constexpr std::size_t kKernel = 5;
constexpr std::size_t kStride = 2;
constexpr std::size_t kChannels = 8;
constexpr std::size_t kNeurons = 64;
constexpr std::size_t kDigits = 10;

std::size_t positions_along(std::size_t extent) {
  if (extent < kKernel) {
    throw std::runtime_error(fmt::format("pictures too small: got {} pixels, wanted {} or more", extent, kKernel));
  }
  return (extent - kKernel) / kStride + 1;
}

/// The convolution is a linear map of every patch of 5 x 5 pixels: these are the patches, one in each row.
std::vector<float> patches_of(const Digits& digits) {
  const auto rows = positions_along(digits.height);
  const auto columns = positions_along(digits.width);
  std::vector<float> patches;
  patches.reserve(digits.count() * rows * columns * kKernel * kKernel);
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const float* picture = digits.pixels.data() + i * digits.picture_size();
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        for (std::size_t y = 0; y < kKernel; ++y) {
          const float* line = picture + (row * kStride + y) * digits.width + column * kStride;
          patches.insert(patches.end(), line, line + kKernel);
        }
      }
    }
  }
  return patches;
}

std::vector<float> apply(const Linear& layer, std::span<const float> parameters, std::span<const float> in) {
  const auto rows = in.size() / layer.inputs;
  const float* weights = parameters.data() + layer.begin;
  const float* bias = weights + layer.inputs * layer.outputs;
  std::vector<float> out(rows * layer.outputs);
  for (std::size_t row = 0; row < rows; ++row) {
    float* y = out.data() + row * layer.outputs;
    std::copy_n(bias, layer.outputs, y);
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const float x = in[row * layer.inputs + i];
      for (std::size_t j = 0; j < layer.outputs; ++j) y[j] += x * weights[i * layer.outputs + j];
    }
  }
  return out;
}

/// Gradients of the layer's own parameters, from its input and the errors of its output.
void gradients_of(const Linear& layer, std::span<const float> in, std::span<const float> errors,
                  std::span<float> gradients) {
  float* weights = gradients.data() + layer.begin;
  float* bias = weights + layer.inputs * layer.outputs;
  std::fill(weights, gradients.data() + layer.end(), 0.0F);
  for (std::size_t row = 0; row < errors.size() / layer.outputs; ++row) {
    const float* error = errors.data() + row * layer.outputs;
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const float x = in[row * layer.inputs + i];
      for (std::size_t j = 0; j < layer.outputs; ++j) weights[i * layer.outputs + j] += x * error[j];
    }
    for (std::size_t j = 0; j < layer.outputs; ++j) bias[j] += error[j];
  }
}

/// Errors of the layer's input, which came out of a relu, from the errors of its output.
std::vector<float> errors_before(const Linear& layer, std::span<const float> parameters, std::span<const float> in,
                                 std::span<const float> errors) {
  const float* weights = parameters.data() + layer.begin;
  std::vector<float> before(in.size());
  for (std::size_t k = 0; k < in.size(); ++k) {
    if (in[k] <= 0) continue;  // the relu was off
    const float* error = errors.data() + k / layer.inputs * layer.outputs;
    const float* row = weights + k % layer.inputs * layer.outputs;
    for (std::size_t j = 0; j < layer.outputs; ++j) before[k] += error[j] * row[j];
  }
  return before;
}

void relu(std::span<float> values) {
  for (float& value : values) value = std::max(value, 0.0F);
}

}  // namespace

Network::Network(std::size_t height, std::size_t width, std::uint32_t seed)
    : height_(height),
      width_(width),
      convolution_{kKernel * kKernel, kChannels, 0},
      hidden_{positions_along(height) * positions_along(width) * kChannels, kNeurons, convolution_.end()},
      output_{kNeurons, kDigits, hidden_.end()},
      parameters_(output_.end()),
      gradients_(output_.end()) {
  std::mt19937 random(seed);
  for (const auto& layer : {convolution_, hidden_, output_}) {
    std::normal_distribution<float> normal(0, std::sqrt(2.0F / static_cast<float>(layer.inputs)));
    const auto weights = std::span(parameters_).subspan(layer.begin, layer.inputs * layer.outputs);
    std::generate(weights.begin(), weights.end(), [&] { return normal(random); });
  }
}

Network::Score Network::forward(const Digits& digits) {
  if (digits.height != height_ || digits.width != width_) {
    throw std::runtime_error(fmt::format("pictures of another size: got {} x {} pixels, wanted {} x {}", digits.height,
                                         digits.width, height_, width_));
  }
  patches_ = patches_of(digits);
  features_ = apply(convolution_, parameters_, patches_);
  relu(features_);
  neurons_ = apply(hidden_, parameters_, features_);
  relu(neurons_);
  scores_ = apply(output_, parameters_, neurons_);
  return softmax(digits.labels);
}

Network::Score Network::softmax(std::span<const std::uint8_t> labels) {
  Score sum;
  errors_.resize(scores_.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto scores = std::span(scores_).subspan(i * kDigits, kDigits);
    const auto errors = std::span(errors_).subspan(i * kDigits, kDigits);
    const auto best = std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (const float score : scores) total += std::exp(double{score - *best});
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
      const double probability = std::exp(double{scores[digit] - *best}) / total;
      errors[digit] = static_cast<float>(probability - (digit == labels[i] ? 1 : 0));
    }
    sum.loss += std::log(total) - double{scores[labels[i]] - *best};
    sum.correct += best - scores.begin() == labels[i] ? 1 : 0;
  }
  return sum;
}

void Network::backward(float scale, const std::function<void(std::size_t)>& ready) {
  for (float& error : errors_) error *= scale;

  gradients_of(output_, neurons_, errors_, gradients_);
  ready(output_.begin);
  const auto neuron_errors = errors_before(output_, parameters_, neurons_, errors_);

  gradients_of(hidden_, features_, neuron_errors, gradients_);
  ready(hidden_.begin);
  const auto feature_errors = errors_before(hidden_, parameters_, features_, neuron_errors);

  gradients_of(convolution_, patches_, feature_errors, gradients_);
  ready(convolution_.begin);
}
