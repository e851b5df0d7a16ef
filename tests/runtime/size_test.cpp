#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "tests/support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using rondo::format_size;
using rondo::parse_size;

TEST_CASE("sizes take powers of 1024", "[runtime][size]") {
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("64K") == 65536);
  CHECK(parse_size("64k") == 65536);
  CHECK(parse_size("64KiB") == 65536);
  CHECK(parse_size("64KB") == 65536);
  CHECK(parse_size("4M") == std::size_t{4} << 20);
  CHECK(parse_size("1G") == std::size_t{1} << 30);
  CHECK(parse_size("2T") == std::size_t{2} << 40);
}

TEST_CASE("what is no size is shown, with what is wanted", "[runtime][size]") {
  for (const char* text : {"12Q", "", "K", "-1", "1.5M", " 1", "1 K", "1KK", "1K\n"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_size(text), rondo::Error);
  }
  CHECK_THROWS_WITH(parse_size("12Q"), ContainsSubstring("got \"12Q\", wanted a whole number like 4096, 64K, 4M, 1G"));
}

TEST_CASE("sizes over 64 bits are an error, not another size", "[runtime][size]") {
  CHECK(parse_size("16777215T") == std::size_t{16777215} << 40);
  for (const char* text : {"16777216T", "18446744073709551616", "99999999999999999999K"}) {
    CHECK_THROWS_WITH(parse_size(text), ContainsSubstring("2^64"));
  }
}

TEST_CASE("a printed size reads as the same size", "[runtime][size]") {
  CHECK(format_size(65536) == "64K");
  CHECK(format_size(1000) == "1000");
  CHECK(format_size(0) == "0");
  for (const std::size_t bytes : {1ul, 1023ul, 1024ul, 1536ul, 1ul << 20, 3ul << 30, 5ul << 40, 1ul << 60}) {
    CHECK(parse_size(format_size(bytes)) == bytes);
  }
}
