#include "digits/network.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/catch.hpp"

namespace {

Digits random_digits(std::size_t count, std::size_t height, std::size_t width) {
  std::mt19937 random(3);
  Digits digits{.height = height, .width = width, .pixels = std::vector<float>(count * height * width), .labels = {}};
  for (float& pixel : digits.pixels) pixel = static_cast<float>(random() % 200) / 100 - 1;
  for (std::size_t i = 0; i < count; ++i) digits.labels.push_back(static_cast<std::uint8_t>(random() % 10));
  return digits;
}

}  // namespace

TEST_CASE("gradients are the slopes of the loss", "[examples][network]") {
  constexpr float kScale = 0.5F;
  const auto digits = random_digits(3, 8, 9);
  Network network(8, 9, 1);
  network.forward(digits);
  network.backward(kScale, [](std::size_t) {});

  // A relu may have its kink within the step to one side: the slope to the other side is the right one then.
  constexpr float kStep = 5e-4F;
  const double here = network.forward(digits).loss;
  std::mt19937 random(4);
  const auto parameters = network.parameters();
  for (int i = 0; i < 400; ++i) {
    const auto place = random() % parameters.size();
    const float old = parameters[place];
    parameters[place] = old + kStep;
    const double above = network.forward(digits).loss;
    parameters[place] = old - kStep;
    const double below = network.forward(digits).loss;
    parameters[place] = old;

    const double up = kScale * (above - here) / double{kStep};
    const double down = kScale * (here - below) / double{kStep};
    const double gradient = network.gradients()[place];
    INFO("parameter " << place << " of " << parameters.size() << ": got " << gradient << ", wanted " << up << " or "
                      << down);
    CHECK(std::min(std::abs(gradient - up), std::abs(gradient - down)) < 3e-3 + 0.02 * std::abs(gradient));
  }
}

TEST_CASE("gradients become ready from the last layer to the first", "[examples][network]") {
  const auto digits = random_digits(4, 14, 14);
  Network network(14, 14, 1);
  network.forward(digits);
  std::vector<std::size_t> begins;
  std::vector<std::vector<float>> seen;
  const auto gradients = network.gradients();
  network.backward(1, [&](std::size_t begin) {
    begins.push_back(begin);
    seen.emplace_back(gradients.begin() + static_cast<std::ptrdiff_t>(begin), gradients.end());
  });
  REQUIRE(begins.size() == 3);
  CHECK(begins[0] > begins[1]);
  CHECK(begins[1] > begins[2]);
  CHECK(begins[2] == 0);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    CHECK(std::equal(seen[i].begin(), seen[i].end(), gradients.begin() + static_cast<std::ptrdiff_t>(begins[i])));
  }
}

TEST_CASE("no digits give no loss and no gradients", "[examples][network]") {
  Network network(14, 14, 1);
  network.forward(random_digits(2, 14, 14));
  network.backward(1, [](std::size_t) {});
  CHECK(network.forward(random_digits(0, 14, 14)).loss == 0);
  network.backward(1, [](std::size_t) {});
  CHECK(std::all_of(network.gradients().begin(), network.gradients().end(), [](float g) { return g == 0; }));
}

TEST_CASE("pictures of a wrong size are refused", "[examples][network]") {
  CHECK_THROWS_WITH(Network(14, 4, 1), "pictures too small: got 4 pixels, wanted 5 or more");
  Network network(14, 14, 1);
  CHECK_THROWS_WITH(network.forward(random_digits(1, 14, 15)),
                    "pictures of another size: got 14 x 15 pixels, wanted 14 x 14");
}
