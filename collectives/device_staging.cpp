#include "collectives/device_staging.hpp"

#include <rondo/error.hpp>

#include "collectives/arguments.hpp"
#include "cuda/error.hpp"
#include "runtime/condition.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// Looked at whenever the engine polls; no member can help it.
struct IsOver {
  const bool& over;
  bool operator()() const noexcept { return over; }
  bool awaits(int) const noexcept { return false; }
};

bool gives(const CollectiveCall& call, int rank) {
  const bool only_root = call.collective == Collective::broadcast || call.collective == Collective::scatter;
  return !only_root || rank == call.root;
}

bool gets(const CollectiveCall& call, int rank) {
  const bool only_root = call.collective == Collective::reduce || call.collective == Collective::gather;
  return !only_root || rank == call.root;
}

}  // namespace

DeviceStaging::DeviceStaging(Group& group, CollectiveCall& call)
    : group_(group), brings_out_(call.in_place && gives(call, group.rank())), takes_out_(gets(call, group.rank())) {
  check_arguments(call, group.rank(), group.size());
  if (brings_out_ || takes_out_) {
    out_ = buffer(call.out, call.out_count * call.element_bytes, call.out_stream, call);
  }
  if (!call.in_place && gives(call, group.rank())) {
    in_ = buffer(call.in, call.in_count * call.element_bytes, call.in_stream, call);
  }
  call.on_device = false;
  call.in = in_.data();
  call.out = out_.data();
}

DeviceStaging::~DeviceStaging() {
  for (const Buffer& buffer : {in_, out_}) {
    if (buffer.device) buffer.device->given_up = true;
  }
}

DeviceStaging::Buffer DeviceStaging::buffer(const void* data, std::size_t bytes, CudaStream stream,
                                            const CollectiveCall& call) {
  DeviceBytes given;
  given.data = data;
  given.size = bytes;
  given.stream = stream;
  Buffer made;
  made.device = group_.engine().device().begin(given, to_string(call.collective).data());
  if (made.device) made.host = group_.engine().device().stage(bytes);
  made.bytes = bytes;
  return made;
}

Task DeviceStaging::bring(Operation& operation) {
  const Buffer& given = brings_out_ ? out_ : in_;
  if (!given.device) co_return;
  const auto copy = std::make_shared<Copy>();
  group_.engine().device().read(given.device, given.data(), group_.rank(),
                                [copy, host = given.host](const std::exception_ptr& failure) {
                                  copy->failure = failure;
                                  copy->over = true;
                                });
  Task waited = wait(operation, copy);
  co_await waited;
}

Task DeviceStaging::take(Operation& operation) {
  if (!takes_out_ || !out_.device) co_return;
  const auto copy = std::make_shared<Copy>();
  taken_ = true;
  group_.engine().device().write(out_.device, std::span(out_.data(), out_.bytes), group_.rank(),
                                 [copy, host = out_.host](const std::exception_ptr& failure) {
                                   copy->failure = failure;
                                   copy->over = true;
                                 });
  Task waited = wait(operation, copy);
  co_await waited;
}

Task DeviceStaging::wait(Operation& operation, std::shared_ptr<Copy> copy) {
  Until over(operation, IsOver{copy->over}, 1);
  co_await over;
  if (!copy->failure) co_return;
  try {
    std::rethrow_exception(copy->failure);
  } catch (const cuda::CudaError& error) {
    throw Error(Errc::cuda, error.what(),
                {operation.group().rank(),
                 -1,
                 std::string(to_string(operation.call().collective)),
                 operation.number(),
                 0,
                 error.bytes(),
                 {}});
  }
}

bool DeviceStaging::order(CudaStream stream) const {
  return taken_ && group_.engine().device().order(*out_.device, stream);
}

}  // namespace rondo::detail
