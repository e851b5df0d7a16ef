#pragma once

#include <string>
#include <vector>

#include "bench/result.hpp"

namespace rondo::bench {

/// Whether the program gnuplot is on PATH.
bool gnuplot_found();

/// What gnuplot is told: time (p50, and the band up to p99) and bandwidth over size, as an SVG file.
std::string plot_script(const std::string& path, int ranks, const std::vector<Result>& results);

/// The look that all plots share: an SVG file of so many pixels, its axis of sizes logarithmic.
std::string plot_style(int width, int height);
/// As gnuplot reads it between single quotes.
std::string plot_text(const std::string& text);
/// Runs a script that makes `path`. Throws std::runtime_error if gnuplot fails.
void run_gnuplot(const std::string& path, const std::string& script);

/// Throws std::runtime_error if gnuplot fails.
void draw(const std::string& path, int ranks, const std::vector<Result>& results);

}  // namespace rondo::bench
