#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

/// An array of bytes as an IDX file holds it, the format in which MNIST is published: two zero bytes, one
/// byte for the element type, one for the number of dimensions, then each dimension as a big-endian 32-bit
/// number, then the elements.
struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Reads an array of unsigned bytes with so many dimensions: three for images, one for labels.
/// Throws std::runtime_error naming the file and what is wrong with it: missing, not IDX, too short, too
/// long.
IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions);

void write_idx(const std::filesystem::path& path, const IdxArray& array);

/// A vector of 32-bit floats, big-endian as the format wants them.
void write_idx(const std::filesystem::path& path, std::span<const float> values);
