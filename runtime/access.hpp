#pragma once

#include <memory>
#include <utility>

#include <rondo/communicator.hpp>
#include <rondo/work.hpp>

#include "runtime/engine.hpp"

namespace rondo {

/// The library's own way into the handles that users hold.
struct CommunicatorAccess {
  static Communicator make(std::shared_ptr<detail::Engine> engine, detail::Group& group) {
    return Communicator(std::move(engine), group);
  }
  static const std::shared_ptr<detail::Engine>& engine(const Communicator& communicator) {
    return communicator.engine_;
  }
  /// Throws Errc::not_initialized for an inert handle.
  static detail::Group& group(const Communicator& communicator, const char* operation) {
    if (!communicator.group_) refuse_inert(operation);
    return *communicator.group_;
  }
  static detail::Group& group(const Communicator& communicator, Collective collective) {
    if (!communicator.group_) refuse_inert(to_string(collective).data());
    return *communicator.group_;
  }

 private:
  [[noreturn]] static void refuse_inert(const char* operation);
};

struct WorkAccess {
  /// Of an operation that has been started, under the engine's lock.
  static Work make(std::shared_ptr<detail::Engine> engine, std::unique_ptr<detail::Waitable> waitable) {
    return Work(std::move(engine), std::move(waitable));
  }
};

}  // namespace rondo
