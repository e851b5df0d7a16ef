#include "runtime/caches.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using rondo::detail::LastCaches;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

/// Where the system might tell of its cores.
class Cpus {
 public:
  explicit Cpus(const std::string& online) { write("/online", online); }

  void cache(int index, const std::string& level, const std::string& type, const std::string& size,
             const std::string& shared_by) const {
    const std::string folder = "/cpu0/cache/index" + std::to_string(index);
    write(folder + "/level", level);
    write(folder + "/type", type);
    write(folder + "/size", size);
    write(folder + "/shared_cpu_list", shared_by);
  }
  LastCaches found() const { return rondo::detail::last_caches(directory_ / "cpu"); }

 private:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = directory_ / ("cpu" + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }

  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("the last cache is that of the highest level, one for all cores that share it", "[runtime][caches]") {
  const Cpus cpus("0-7,16-22");
  cpus.cache(0, "1", "Data", "32K", "0,16");
  cpus.cache(1, "1", "Instruction", "32K", "0,16");
  cpus.cache(2, "2", "Unified", "512K", "0,16");
  cpus.cache(3, "3", "Unified", "32768K", "0-3,16-19");
  CHECK(cpus.found().bytes == 32 * MiB);
  CHECK(cpus.found().count == 2);
}

TEST_CASE("without a third level it is the second, which a core may have to itself", "[runtime][caches]") {
  const Cpus cpus("0-2");
  cpus.cache(0, "1", "Data", "48K", "0");
  cpus.cache(1, "2", "Unified", "2048K", "0");
  cpus.cache(2, "3", "Instruction", "64K", "0");
  CHECK(cpus.found().bytes == 2 * MiB);
  CHECK(cpus.found().count == 3);
}

TEST_CASE("where the system tells nothing of caches, or nothing that can be read, there is one of the usual size",
          "[runtime][caches]") {
  const Cpus silent("0-3");
  CHECK(silent.found().bytes == LastCaches().bytes);
  silent.cache(0, "2", "Unified", "512K", "0");
  silent.cache(1, "3", "Unified", "0K", "0-3");
  CHECK(silent.found().bytes == LastCaches().bytes);
  CHECK(silent.found().count == 1);
}

TEST_CASE("ranks have no more caches than there are, nor than they are themselves", "[runtime][caches]") {
  const LastCaches caches{32 * MiB, 4};
  CHECK(caches.held_by(1) == 32 * MiB);
  CHECK(caches.held_by(4) == 128 * MiB);
  CHECK(caches.held_by(8) == 128 * MiB);
}
