#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>

#include <rondo/export.hpp>

namespace rondo {

namespace detail {
/// Coroutine frames come from a free list per thread: in the steady state a chunk of work allocates nothing.
RONDO_EXPORT void* allocate_frame(std::size_t bytes);
RONDO_EXPORT void free_frame(void* frame, std::size_t bytes) noexcept;

/// The same for what lives as long as an operation.
template <typename T>
struct PooledAllocator {
  using value_type = T;
  PooledAllocator() = default;
  template <typename Other>
  PooledAllocator(const PooledAllocator<Other>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_frame(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { free_frame(memory, count * sizeof(T)); }
  friend bool operator==(const PooledAllocator&, const PooledAllocator&) = default;
};
}  // namespace detail

/// A coroutine that starts when it is awaited (or `start`ed) and resumes whoever awaits it when it ends. One that ends
/// without having been suspended does not suspend who awaits it: tasks one after another take no more stack than one,
/// also where the compiler makes no tail calls.
/// The same text is a blocking call, an asynchronous one and a simulated one: that depends on who resumes it.
///
/// Write awaitables into named locals and pass arguments by reference to what outlives the coroutine:
/// g++ 12 destroys temporaries inside `co_await` expressions too early.
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  /// Resumes the awaiting coroutine on the spot.
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle ended) const noexcept;
    void await_resume() const noexcept {}
  };

  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::exception_ptr error;

    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalAwaiter final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }

    static void* operator new(std::size_t bytes) { return detail::allocate_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) noexcept { detail::free_frame(frame, bytes); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() { destroy(); }

  bool valid() const noexcept { return static_cast<bool>(handle_); }
  bool done() const noexcept { return handle_.done(); }

  /// Runs until the first suspension.
  void start() { handle_.resume(); }

  /// Rethrows what the finished coroutine threw.
  void result() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

  std::exception_ptr error() const noexcept { return handle_.promise().error; }

  bool await_ready() const noexcept { return handle_.done(); }
  bool await_suspend(std::coroutine_handle<> awaiting) {
    start();
    if (handle_.done()) return false;
    handle_.promise().continuation = awaiting;
    return true;
  }
  void await_resume() const { result(); }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  void destroy() noexcept {
    if (handle_) handle_.destroy();
    handle_ = {};
  }

  Handle handle_;
};

inline std::coroutine_handle<> Task::FinalAwaiter::await_suspend(Handle ended) const noexcept {
  return ended.promise().continuation;
}

}  // namespace rondo
