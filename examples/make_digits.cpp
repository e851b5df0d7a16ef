// Makes the small set of digits that ships with the tree: `make_digits examples/data` writes it anew. Each
// digit is drawn with a pen of random width along the strokes below, leaning, turned, stretched, shifted,
// with an unsteady hand, on noisy paper. The files have the names and the format of MNIST; the pictures are
// 14 x 14 instead of 28 x 28.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "digits/idx_file.hpp"

namespace {

constexpr std::size_t kSide = 14;

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;

/// Part of an ellipse; degrees, clockwise from the right because y grows downwards.
Stroke arc(Point center, float width, float height, float from, float to) {
  constexpr int kSteps = 12;
  Stroke stroke;
  for (int i = 0; i <= kSteps; ++i) {
    const float angle = (from + (to - from) * static_cast<float>(i) / kSteps) * std::numbers::pi_v<float> / 180;
    stroke.push_back({center.x + width * std::cos(angle), center.y + height * std::sin(angle)});
  }
  return stroke;
}

Stroke joined(Stroke first, const Stroke& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// How each digit is written, in a square from -1 to 1, y downwards.
std::array<std::vector<Stroke>, 10> handwriting() {
  return {{
      {arc({0, 0}, 0.6F, 0.95F, 0, 360)},
      {{{-0.35F, -0.55F}, {0.1F, -0.95F}, {0.1F, 0.95F}}},
      {joined(arc({0, -0.45F}, 0.55F, 0.5F, -170, 40), {{-0.6F, 0.95F}, {0.65F, 0.95F}})},
      {arc({-0.05F, -0.48F}, 0.52F, 0.47F, -160, 90), arc({-0.05F, 0.45F}, 0.6F, 0.5F, -90, 160)},
      {{{0.1F, -0.95F}, {-0.6F, 0.3F}, {0.65F, 0.3F}}, {{0.3F, -0.3F}, {0.3F, 0.95F}}},
      {joined({{0.5F, -0.95F}, {-0.4F, -0.95F}, {-0.5F, -0.1F}}, arc({0, 0.37F}, 0.6F, 0.58F, -120, 150))},
      {joined({{0.4F, -0.95F}, {-0.25F, -0.45F}}, arc({0, 0.4F}, 0.55F, 0.55F, 195, 555))},
      {{{-0.6F, -0.9F}, {0.6F, -0.9F}, {-0.1F, 0.95F}}},
      {arc({0, -0.48F}, 0.48F, 0.45F, 90, 450), arc({0, 0.45F}, 0.58F, 0.5F, -90, 270)},
      {joined(arc({0, -0.4F}, 0.55F, 0.53F, 15, 375), {{0.45F, 0.2F}, {0.2F, 0.95F}})},
  }};
}

float distance_to_segment(Point p, Point a, Point b) {
  const Point along{b.x - a.x, b.y - a.y};
  const float length2 = along.x * along.x + along.y * along.y;
  const float t = length2 > 0 ? ((p.x - a.x) * along.x + (p.y - a.y) * along.y) / length2 : 0;
  const float nearest = std::clamp(t, 0.0F, 1.0F);
  return std::hypot(p.x - a.x - nearest * along.x, p.y - a.y - nearest * along.y);
}

class Writer {
 public:
  explicit Writer(std::uint32_t seed) : random_(seed) {}

  int any_digit() { return static_cast<int>(random_() % 10); }

  /// Appends the picture of a digit as this hand happens to write it now.
  void write(int digit, std::vector<std::uint8_t>& pixels) {
    const auto strokes = placed(strokes_[static_cast<std::size_t>(digit)]);
    const float pen = between(0.6F, 1.15F);
    const float ink = between(170, 255);
    for (std::size_t row = 0; row < kSide; ++row) {
      for (std::size_t column = 0; column < kSide; ++column) {
        const Point pixel{static_cast<float>(column), static_cast<float>(row)};
        const float shade = std::clamp(pen + 0.5F - distance(pixel, strokes), 0.0F, 1.0F);
        const float value = shade * ink + between(-1, 1) * 28;
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F)));
      }
    }
  }

 private:
  /// Not a standard distribution: those may differ from one standard library to the next.
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(random_() >> 8) / static_cast<float>(1 << 24);
  }

  /// From the unit square to pixels, with a random hand.
  std::vector<Stroke> placed(std::vector<Stroke> strokes) {
    const float turn = between(-0.2F, 0.2F);
    const float slant = between(-0.1F, 0.45F);
    const float width = between(3.2F, 5.0F);
    const float height = between(4.0F, 5.6F);
    const Point center{6.5F + between(-1.6F, 1.6F), 6.5F + between(-1.3F, 1.3F)};
    for (auto& stroke : strokes) {
      for (auto& [x, y] : stroke) {
        const float leaning = (x + between(-0.09F, 0.09F) - slant * y) * width;
        const float upright = (y + between(-0.09F, 0.09F)) * height;
        x = center.x + leaning * std::cos(turn) - upright * std::sin(turn);
        y = center.y + leaning * std::sin(turn) + upright * std::cos(turn);
      }
    }
    return strokes;
  }

  static float distance(Point pixel, const std::vector<Stroke>& strokes) {
    float nearest = kSide;
    for (const auto& stroke : strokes) {
      for (std::size_t i = 1; i < stroke.size(); ++i) {
        nearest = std::min(nearest, distance_to_segment(pixel, stroke[i - 1], stroke[i]));
      }
    }
    return nearest;
  }

  std::mt19937 random_;
  std::array<std::vector<Stroke>, 10> strokes_ = handwriting();
};

void write_set(const std::filesystem::path& directory, const std::string& name, std::size_t count, std::uint32_t seed) {
  Writer writer(seed);
  IdxArray images{.shape = {count, kSide, kSide}, .bytes = {}};
  IdxArray labels{.shape = {count}, .bytes = {}};
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = writer.any_digit();
    labels.bytes.push_back(static_cast<std::uint8_t>(digit));
    writer.write(digit, images.bytes);
  }
  write_idx(directory / (name + "-images-idx3-ubyte"), images);
  write_idx(directory / (name + "-labels-idx1-ubyte"), labels);
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path directory;
  std::size_t train_count = 2000;
  std::size_t test_count = 500;
  std::uint32_t seed = 1;
  const CLI::Range most(0, 1'000'000);
  CLI::App app{"Makes a small set of digits in the format of MNIST."};
  app.add_option("directory", directory, "where the four files go")->required()->check(CLI::ExistingDirectory);
  app.add_option("--train", train_count, "digits to train on")->check(most)->capture_default_str();
  app.add_option("--test", test_count, "digits held out")->check(most)->capture_default_str();
  app.add_option("--seed", seed, "of the random numbers")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    write_set(directory, "train", train_count, seed);
    write_set(directory, "t10k", test_count, seed + 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "make_digits: {}\n", error.what());
    return 1;
  }
}
