#include "bench/plot.hpp"

#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/program.hpp"

namespace rondo::bench {
namespace {

/// Sizes as they are typed, on at most about a dozen places of the axis.
std::string size_labels(const std::vector<Result>& results) {
  const std::size_t step = results.size() / 12 + 1;
  std::string labels;
  for (std::size_t i = 0; i < results.size(); i += step)
    labels += fmt::format("{}'{}' {}", labels.empty() ? "" : ", ", format_size(results[i].bytes), results[i].bytes);
  return labels;
}

std::string data_block(const std::vector<Result>& results) {
  std::string rows;
  for (const Result& result : results) {
    if (result.bytes == 0) continue;  // has no place on a logarithmic axis
    rows += fmt::format("{} {} {} {} {}\n", result.bytes, result.time_us.p50, result.time_us.p99, result.algbw_GBps,
                        result.busbw_GBps);
  }
  return rows;
}

constexpr const char* kStyle = R"(
set encoding utf8
set border 3 linecolor '#606060'
set tics nomirror out textcolor '#404040'
set grid linecolor '#e0e0e0' linetype 1
set logscale x 2
set lmargin 14
set rmargin 3
set key top left Left reverse samplen 2
)";

}  // namespace

std::string plot_text(const std::string& text) {
  std::string result = "'";
  for (const char character : text) {
    result += character;
    if (character == '\'') result += character;
  }
  return result + "'";
}

std::string plot_style(int width, int height) {
  return fmt::format("set terminal svg size {},{} background '#ffffff' font 'sans-serif,14' enhanced", width, height) +
         kStyle;
}

bool gnuplot_found() { return find_on_path("gnuplot").has_value(); }

std::string plot_script(const std::string& path, int ranks, const std::vector<Result>& results) {
  const Result& any = results.front();
  std::string what = fmt::format("{}, {} ranks, {}, {}", facts(any.operation).name, ranks, any.transport, any.type);
  if (any.reduce != "none") what += ", " + any.reduce;
  std::string script = "$data << END\n" + data_block(results) + "END\n";
  script += plot_style(900, 760);
  script += fmt::format("set output {}\n", plot_text(path));
  script += fmt::format("set multiplot layout 2,1 title {} noenhanced\n", plot_text(what));
  script += fmt::format("set xtics ({})\n", size_labels(results));
  script += "set logscale y\nset ylabel 'time (µs)'\n";
  script +=
      "plot $data using 1:2:3 with filledcurves fillcolor '#bcd4ee' title 'p50 to p99', "
      "'' using 1:2 with linespoints linecolor '#1f5fa8' linewidth 2 pointtype 7 pointsize 0.5 title 'p50'\n";
  script += "unset logscale y\nset yrange [0:*]\nset ylabel 'bandwidth (GB/s)'\nset xlabel 'size (bytes)'\n";
  script +=
      "plot $data using 1:5 with linespoints linecolor '#b3541e' linewidth 2 pointtype 7 pointsize 0.5 title 'bus', "
      "'' using 1:4 with lines linecolor '#808080' linewidth 1.5 dashtype 2 title 'algorithm'\n";
  return script + "unset multiplot\n";
}

void run_gnuplot(const std::string& path, const std::string& script) {
  // A gnuplot that gives up early must end in the error below, not in the end of this process.
  std::signal(SIGPIPE, SIG_IGN);
  FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) throw std::runtime_error("--plot: gnuplot could not be started");
  const bool written = std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  const int status = pclose(gnuplot);
  if (!written || status != 0) {
    throw std::runtime_error(fmt::format("--plot: gnuplot could not draw {} (exit status {})", path,
                                         WIFEXITED(status) ? WEXITSTATUS(status) : status));
  }
}

void draw(const std::string& path, int ranks, const std::vector<Result>& results) {
  if (!results.empty()) run_gnuplot(path, plot_script(path, ranks, results));
}

}  // namespace rondo::bench
