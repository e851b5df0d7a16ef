#include "idx_file.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

namespace {

constexpr std::uint32_t kUnsignedByte = 0x08;
constexpr std::uint32_t kFloat = 0x0D;
constexpr std::uint32_t kGzipMagic = 0x1F8B;

std::uint32_t magic_of(std::uint32_t type, std::size_t dimensions) {
  return type << 8 | static_cast<std::uint32_t>(dimensions);
}

std::runtime_error wrong(const std::filesystem::path& path, const std::string& cause) {
  return std::runtime_error(fmt::format("{}: {}", path.string(), cause));
}

std::string system_text() { return std::generic_category().message(errno); }

std::uint32_t read_big_endian(std::istream& file, const std::filesystem::path& path) {
  std::array<char, 4> bytes{};
  if (!file.read(bytes.data(), bytes.size())) throw wrong(path, "the file ends inside its header");
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

void write_big_endian(std::ostream& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift & 0xFF));
}

void check_magic(std::uint32_t got, std::size_t dimensions, const std::filesystem::path& path) {
  const auto wanted = magic_of(kUnsignedByte, dimensions);
  if (got == wanted) return;
  const char* hint = got >> 16 == kGzipMagic ? " (this is a gzip file: unpack it first)" : "";
  throw wrong(path, fmt::format("bad magic number, got {:#010x}, wanted {:#010x}{}", got, wanted, hint));
}

std::ofstream create(const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw wrong(path, fmt::format("cannot create: {}", system_text()));
  return file;
}

void close(std::ofstream& file, const std::filesystem::path& path) {
  file.close();
  if (!file) throw wrong(path, fmt::format("cannot write: {}", system_text()));
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw wrong(path, fmt::format("cannot open: {}", system_text()));
  check_magic(read_big_endian(file, path), dimensions, path);

  // The size is checked before memory is asked for: a damaged header may claim any number of elements.
  IdxArray array;
  std::uintmax_t wanted = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(read_big_endian(file, path));
    if (__builtin_mul_overflow(wanted, std::uintmax_t{array.shape.back()}, &wanted)) {
      throw wrong(path, "bad header, its dimensions multiply to more than 64 bits hold");
    }
  }
  const auto header_bytes = static_cast<std::uintmax_t>(file.tellg());
  const auto got = std::filesystem::file_size(path) - header_bytes;
  if (got != wanted) {
    throw wrong(path, fmt::format("{}, got {} bytes after the header, wanted {}",
                                  got < wanted ? "truncated" : "too long", got, wanted));
  }
  array.bytes.resize(wanted);
  if (!file.read(reinterpret_cast<char*>(array.bytes.data()), static_cast<std::streamsize>(wanted))) {
    throw wrong(path, fmt::format("cannot read: {}", system_text()));
  }
  return array;
}

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  auto file = create(path);
  write_big_endian(file, magic_of(kUnsignedByte, array.shape.size()));
  for (const auto extent : array.shape) write_big_endian(file, static_cast<std::uint32_t>(extent));
  file.write(reinterpret_cast<const char*>(array.bytes.data()), static_cast<std::streamsize>(array.bytes.size()));
  close(file, path);
}

void write_idx(const std::filesystem::path& path, std::span<const float> values) {
  auto file = create(path);
  write_big_endian(file, magic_of(kFloat, 1));
  write_big_endian(file, static_cast<std::uint32_t>(values.size()));
  for (const float value : values) write_big_endian(file, std::bit_cast<std::uint32_t>(value));
  close(file, path);
}
