#pragma once

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/settings.hpp"

namespace rondo::bench {

/// Nothing for what is no number.
template <typename Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// For CLI::Option::check: CLI11's own texts do not say what was wanted.

template <typename Number>
std::string check_number(const std::string& text) {
  if (number_of<Number>(text)) return {};
  using Bounds = std::numeric_limits<Number>;
  const auto far = number_of<double>(text);
  if (far && *far > static_cast<double>(Bounds::max()))
    return fmt::format("got {}, wanted at most {}", text, Bounds::max());
  if (far && *far < static_cast<double>(Bounds::lowest()))
    return fmt::format("got {}, wanted at least {}", text, Bounds::lowest());
  return fmt::format("got {}, wanted a {}number", text, std::is_integral_v<Number> ? "whole " : "");
}

inline std::string check_positive(const std::string& text) {
  const auto value = number_of<double>(text);
  return value && std::isfinite(*value) && *value > 0 ? "" : fmt::format("got {}, wanted a positive number", text);
}

inline std::string check_plot_name(const std::string& path) {
  return path.ends_with(".svg") ? "" : fmt::format("got {}, wanted a name that ends in .svg", path);
}

/// Reads the arguments after a command's name into what `app` was told. Throws UsageError or HelpAsked.
inline void parse(CLI::App& app, const std::vector<std::string>& arguments) {
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_type_name() == "INT") option->check(check_number<int>);
    if (option->get_type_name() == "FLOAT") option->check(check_number<double>);
  }
  try {
    // CLI11 takes the arguments last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked(app.help());
  } catch (const CLI::ExtrasError&) {
    throw UsageError(fmt::format("did not expect {} (see {} --help)", app.remaining().front(), app.get_name()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace rondo::bench
