#pragma once

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/carriers.hpp"
#include "bench/device_figures.hpp"
#include "bench/result.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// {"version":..., "ranks":..., "settings":{...}, "carriers":[...], "device":{...}, "device_carriers":[...],
/// "unshared":{...}, "results":[...]}; a carrier's `reason` is null where nothing is better, its `long_messages` where
/// they go as others do, what of `unshared` is shared, or not asked for; `wrong` where results were not checked,
/// `device`, `call_us`, `enqueue_us` and `copy_percent` where they were not on devices.
void write_json(std::ostream& to, const std::string& version, int ranks, const Settings& settings, const Ways& ways,
                const std::optional<DeviceFigures>& device, const std::vector<Result>& results);

/// A line of names, then a line per result.
void write_csv(std::ostream& to, int ranks, const std::vector<Result>& results);

/// Throws UsageError if a file that the settings name cannot be written, or gnuplot is needed and not there: before
/// anything is measured.
void check_reports(const Settings& settings);
/// The same for one file; nothing where the path is empty. `option` is what named it.
void check_writable(const std::string& path, const char* option);
void check_plot(const std::string& path);

/// `write(stream)` to the file at `path`; nothing where that is empty. Throws std::runtime_error.
template <typename Writer>
void write_file(const std::string& path, Writer&& write) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::trunc);
  write(file);
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write {}", path));
}

/// Writes the files that the settings name. Throws std::runtime_error.
void write_reports(const Settings& settings, int ranks, const Ways& ways, const std::optional<DeviceFigures>& device,
                   const std::vector<Result>& results);

}  // namespace rondo::bench
