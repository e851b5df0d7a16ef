#include <array>
#include <cstddef>

#include <rondo/blocks.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;

TEST_CASE("even blocks cover everything and differ by one at most", "[collectives][blocks]") {
  for (const int size : {1, 2, 3, 4, 7, 16}) {
    for (const std::size_t total : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(size - 1),
                                    static_cast<std::size_t>(size), std::size_t{1000}}) {
      const Blocks blocks = Blocks::even(total, size);
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        CHECK(blocks.begin(rank) == end);
        CHECK(blocks.count(rank) <= blocks.largest());
        CHECK(blocks.count(rank) + 1 >= blocks.largest());
        end += blocks.count(rank);
      }
      CHECK(end == total);
      CHECK(blocks.total() == total);
    }
  }
}

TEST_CASE("even blocks of the first few leave the others nothing", "[collectives][blocks]") {
  const Blocks blocks = Blocks::even(10, 5, 3);
  CHECK(blocks.size() == 5);
  CHECK(blocks.largest() == 4);
  CHECK(blocks.in(Buffer::input, 0) == Range{Buffer::input, 0, 4});
  CHECK(blocks.in(Buffer::input, 2) == Range{Buffer::input, 7, 3});
  CHECK(blocks.in(Buffer::input, 3) == Range{Buffer::input, 10, 0});
  CHECK(blocks.begin(5) == 10);
}

TEST_CASE("blocks by counts keep empty shares", "[collectives][blocks]") {
  const std::array<std::size_t, 4> counts{0, 5, 1, 2};
  const Blocks blocks = Blocks::of_counts(counts);
  CHECK(blocks.size() == 4);
  CHECK(blocks.total() == 8);
  CHECK(blocks.largest() == 5);
  CHECK(blocks.in(Buffer::input, 0) == Range{Buffer::input, 0, 0});
  CHECK(blocks.in(Buffer::output, 3) == Range{Buffer::output, 6, 2});
}

TEST_CASE("consecutive blocks are counted round the end", "[collectives][blocks]") {
  const std::array<std::size_t, 4> counts{1, 2, 4, 8};
  for (const Blocks& blocks : {Blocks::of_counts(counts), Blocks::even(15, 4)}) {
    for (int first = 0; first < 4; ++first) {
      std::size_t sum = 0;
      for (int many = 0; many <= 4; ++many) {
        CHECK(blocks.count_around(first, many) == sum);
        sum += blocks.count((first + many) % 4);
      }
    }
  }
}

TEST_CASE("chunks cover a block, the last one shorter", "[collectives][blocks]") {
  const Range whole{Buffer::output, 3, 10};
  CHECK(chunks_of(10, 4) == 3);
  CHECK(chunks_of(10, 5) == 2);
  CHECK(chunks_of(10, 0) == 1);
  CHECK(chunks_of(0, 4) == 0);
  CHECK(chunk_of(whole, 4, 0) == Range{Buffer::output, 3, 4});
  CHECK(chunk_of(whole, 4, 2) == Range{Buffer::output, 11, 2});
  CHECK(chunk_of(whole, 4, 3).count == 0);
  CHECK(chunk_of(whole, 0, 0) == whole);
  CHECK(chunk_of(whole, 0, 1).count == 0);
  CHECK(longest_chunk(10, 4) == 4);
  CHECK(longest_chunk(3, 4) == 3);
  CHECK(longest_chunk(3, 0) == 3);
}

TEST_CASE("a stripe is the same chunk of every block", "[collectives][blocks]") {
  const Blocks blocks = Blocks::even(10, 4);
  const Stripe first(blocks, 2, 0);
  const Stripe second(blocks, 2, 1);
  CHECK(first.in(Buffer::output, 1) == Range{Buffer::output, 3, 2});
  CHECK(second.in(Buffer::output, 1) == Range{Buffer::output, 5, 1});
  CHECK(second.in(Buffer::output, 3).count == 0);
}
