#include "cuda/context.hpp"

namespace rondo::cuda {
namespace {

/// By the innermost Current of this thread; nullptr: there is none.
thread_local ContextHandle made_current = nullptr;

}  // namespace

PrimaryContext::PrimaryContext(const Driver& driver, Device device) : driver_(driver), device_(device) {
  driver.must(driver.cuDevicePrimaryCtxRetain, &handle_, device);
}

// Destructors let errors pass: at the end of a process the driver may have gone before, and nobody could act on them.

PrimaryContext::~PrimaryContext() { driver_.cuDevicePrimaryCtxRelease(device_); }

Current::Current(const PrimaryContext& context) : driver_(context.driver()), before_(made_current) {
  const Result result = begin(context);
  if (result != Result::success) driver_.fail(driver_.cuCtxPushCurrent.name, result);
}

Current::Current(const PrimaryContext& context, std::nothrow_t) noexcept
    : driver_(context.driver()), before_(made_current) {
  (void)begin(context);
}

Result Current::begin(const PrimaryContext& context) noexcept {
  is_current_ = before_ == context.handle();
  if (is_current_) return Result::success;
  const Result result = driver_.cuCtxPushCurrent(context.handle());
  is_current_ = result == Result::success;
  if (is_current_) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    made_current = context.handle();
  }
  return result;
}

Current::~Current() {
  if (!is_current_ || made_current == before_) return;
  made_current = before_;
  ContextHandle popped = nullptr;
  driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  driver_.cuCtxPopCurrent(&popped);
}

Stream::Stream(const PrimaryContext& context) : context_(context) {
  const Driver& driver = context.driver();
  const Current current(context);
  int least = 0;
  int greatest = 0;
  driver.must(driver.cuCtxGetStreamPriorityRange, &least, &greatest);
  driver.must(driver.cuStreamCreateWithPriority, &handle_, kStreamNonBlocking, greatest);
}

Stream::~Stream() {
  const Current current(context_, std::nothrow);
  if (current) context_.driver().cuStreamDestroy(handle_);
}

bool Stream::idle(const CudaFacts& facts) const {
  const Driver& driver = context_.driver();
  const Current current(context_);
  const Result result = driver.cuStreamQuery(handle_);
  if (result == Result::not_ready) return false;
  if (result != Result::success) driver.fail(driver.cuStreamQuery.name, result, facts);
  return true;
}

void Stream::synchronize() const {
  const Driver& driver = context_.driver();
  const Current current(context_);
  driver.must(driver.cuStreamSynchronize, handle_);
}

}  // namespace rondo::cuda
