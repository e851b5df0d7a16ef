#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "digits.hpp"

/// Rows of `inputs` numbers to rows of `outputs` numbers, row * weights + bias. Its parameters are a part of
/// the network's: the weights, one row for each input, then the bias.
struct Linear {
  std::size_t inputs;
  std::size_t outputs;
  std::size_t begin;  ///< of its parameters among the network's

  std::size_t end() const { return begin + (inputs + 1) * outputs; }
};

/// A small convolutional network in plain C++:
///
///     picture -> convolution 5x5, stride 2, 8 channels -> relu -> 64 neurons -> relu -> 10 digits -> softmax
///
/// All parameters lie in one vector, and so do their gradients: what is sent to other ranks is a range of it.
class Network {
 public:
  Network(std::size_t height, std::size_t width, std::uint32_t seed);

  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }

  struct Score {
    double loss = 0;           ///< cross entropy, summed over the digits
    std::int64_t correct = 0;  ///< digits that were recognized
  };

  Score forward(const Digits& digits);

  /// The gradients of `scale` times the loss of the latest `forward`. The backward pass runs from the last
  /// layer to the first; as soon as a layer's gradients are there, `ready(begin)` says that all from `begin`
  /// to the end are final.
  void backward(float scale, const std::function<void(std::size_t begin)>& ready);

 private:
  Score softmax(std::span<const std::uint8_t> labels);

  std::size_t height_, width_;
  Linear convolution_, hidden_, output_;
  std::vector<float> parameters_, gradients_;

  // Of the latest forward pass: what went into each layer. `errors_` is the gradient of the loss with respect
  // to the last layer's output.
  std::vector<float> patches_, features_, neurons_, scores_, errors_;
};
