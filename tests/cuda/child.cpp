#include "tests/cuda/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace rondo::testing {
namespace {

using detail::Descriptor;

std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string read_all(const Descriptor& from) {
  std::string text;
  char part[4096];
  for (ssize_t bytes = 0; (bytes = ::read(from.get(), part, sizeof(part))) > 0;) {
    text.append(part, static_cast<std::size_t>(bytes));
  }
  return text;
}

}  // namespace

Child::Child(std::vector<std::string> arguments, const std::vector<std::string>& variables) {
  std::signal(SIGPIPE, SIG_IGN);
  auto [child_input, input] = make_pipe();
  auto [output, child_output] = make_pipe();
  auto [error, child_error] = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, child_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, child_output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, child_error.get(), STDERR_FILENO);

  arguments.insert(arguments.begin(), CUDA_ACTOR);
  std::vector<std::string> environment = variables;  // of two, the first is taken
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  const int failed = ::posix_spawn(&pid_, CUDA_ACTOR, &actions, nullptr, pointers_to(arguments).data(),
                                   pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(std::string("cannot start " CUDA_ACTOR ": ") + std::strerror(failed));
  input_ = std::move(input);
  output_ = std::move(output);
  error_ = std::move(error);
}

Child::~Child() {
  if (pid_ < 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void Child::kill() const { ::kill(pid_, SIGKILL); }

void Child::say(const std::string& line) const {
  const std::string text = line + "\n";
  if (::write(input_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the other process does not listen");
  }
}

std::string Child::hear() {
  std::string line;
  for (char letter = 0; ::read(output_.get(), &letter, 1) == 1;) {
    if (letter == '\n') return line;
    line += letter;
  }
  throw std::runtime_error("the other process has ended: " + read_all(error_));
}

Child::Ended Child::wait() {
  input_.reset();
  Ended ended{.status = 0, .error = read_all(error_)};
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

}  // namespace rondo::testing
