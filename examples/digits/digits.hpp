#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// Handwritten digits with what they are meant to be.
struct Digits {
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<float> pixels;  ///< one picture after the other, row by row; mean 0, deviation 1
  std::vector<std::uint8_t> labels;

  std::size_t count() const { return labels.size(); }
  std::size_t picture_size() const { return height * width; }
};

/// Some of the digits, in the given order.
Digits pick(const Digits& digits, std::span<const std::size_t> indices);

/// Reads `<set>-images-idx3-ubyte` and `<set>-labels-idx1-ubyte` (some mirrors write `.idx3-ubyte`); the sets
/// of MNIST are called "train" and "t10k". Throws std::runtime_error that says what is wrong with which file.
Digits load_digits(const std::filesystem::path& directory, const std::string& set);
