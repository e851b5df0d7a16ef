#include "digits/idx_file.hpp"

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <string>

#include "digits/digits.hpp"
#include "tests/support/catch.hpp"

namespace {

using namespace std::string_literals;
using Catch::Matchers::ContainsSubstring;

/// A directory that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rondo-idx-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const std::string kTwoPictures = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03"s + "abcdef";
const std::string kTwoLabels = "\0\0\x08\x01\0\0\0\x02"s + "\x07\x09";

}  // namespace

TEST_CASE("an IDX file is read as its header says", "[examples][idx]") {
  const Folder folder;
  const auto array = read_idx(folder.file("pictures", kTwoPictures), 3);
  CHECK(array.shape == std::vector<std::size_t>{2, 1, 3});
  CHECK(std::string(array.bytes.begin(), array.bytes.end()) == "abcdef");
}

TEST_CASE("an IDX file comes back as it was written", "[examples][idx]") {
  const Folder folder;
  const IdxArray array{.shape = {300, 2}, .bytes = std::vector<std::uint8_t>(600, 200)};
  write_idx(folder.path() / "array", array);
  const auto again = read_idx(folder.path() / "array", 2);
  CHECK(again.shape == array.shape);
  CHECK(again.bytes == array.bytes);
}

TEST_CASE("floats are written big-endian", "[examples][idx]") {
  const Folder folder;
  const std::vector<float> values{1.0F, -2.5F};
  write_idx(folder.path() / "floats", values);
  std::ifstream file(folder.path() / "floats", std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  CHECK(content == "\0\0\x0d\x01\0\0\0\x02\x3f\x80\0\0\xc0\x20\0\0"s);
}

TEST_CASE("what is wrong with an IDX file is said", "[examples][idx]") {
  const Folder folder;
  CHECK_THROWS_WITH(read_idx(folder.path() / "nowhere", 3),
                    ContainsSubstring("nowhere: cannot open: No such file or directory"));
  CHECK_THROWS_WITH(read_idx(folder.file("empty", ""), 3), ContainsSubstring("empty: the file ends inside its header"));
  CHECK_THROWS_WITH(read_idx(folder.file("short", kTwoPictures.substr(0, 10)), 3),
                    ContainsSubstring("short: the file ends inside its header"));
  CHECK_THROWS_WITH(read_idx(folder.file("labels", kTwoLabels), 3),
                    ContainsSubstring("bad magic number, got 0x00000801, wanted 0x00000803"));
  CHECK_THROWS_WITH(read_idx(folder.file("packed", "\x1f\x8b\x08\x08 and so on"), 3),
                    ContainsSubstring("this is a gzip file: unpack it first"));
  CHECK_THROWS_WITH(read_idx(folder.file("cut", kTwoPictures.substr(0, 20)), 3),
                    ContainsSubstring("cut: truncated, got 4 bytes after the header, wanted 6"));
  CHECK_THROWS_WITH(read_idx(folder.file("more", kTwoPictures + "g"), 3),
                    ContainsSubstring("more: too long, got 7 bytes after the header, wanted 6"));
  CHECK_THROWS_WITH(read_idx(folder.file("huge", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s), 3),
                    ContainsSubstring("huge: bad header"));
}

TEST_CASE("digits are read under both spellings of MNIST's names", "[examples][idx]") {
  const Folder folder;
  folder.file("train-images-idx3-ubyte", kTwoPictures);
  folder.file("train-labels.idx1-ubyte", kTwoLabels);
  const auto digits = load_digits(folder.path(), "train");
  CHECK(digits.height == 1);
  CHECK(digits.width == 3);
  CHECK(digits.pixels.size() == 6);
  CHECK(digits.labels == std::vector<std::uint8_t>{7, 9});
}

TEST_CASE("pictures and labels that do not belong together are refused", "[examples][idx]") {
  const Folder folder;
  folder.file("train-images-idx3-ubyte", kTwoPictures);
  folder.file("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x07"s);
  CHECK_THROWS_WITH(load_digits(folder.path(), "train"),
                    ContainsSubstring("got 1 labels, wanted one for each of 2 images"));
  folder.file("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x02\x07\x0a"s);
  CHECK_THROWS_WITH(load_digits(folder.path(), "train"), ContainsSubstring("got label 10, wanted a digit"));
}
