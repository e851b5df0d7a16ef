#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/settings.hpp"

namespace rondo::bench {

/// Reads the arguments after a command's name into what `app` was told. Throws UsageError or HelpAsked.
inline void parse(CLI::App& app, const std::vector<std::string>& arguments) {
  try {
    // CLI11 takes the arguments last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked(app.help());
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace rondo::bench
