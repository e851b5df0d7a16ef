#include "collectives/device_staging.hpp"

#include <string>

#include "collectives/arguments.hpp"
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

std::byte* data_of(const std::shared_ptr<DeviceBuffer>& buffer) { return buffer ? buffer->staging->data() : nullptr; }

}  // namespace

DeviceStaging::DeviceStaging(Group& group, CollectiveCall& call) : device_(group.engine().device()) {
  check_arguments(call, group.rank(), group.size());
  const bool given = gives(call, group.rank());
  const bool got = gets(call, group.rank());
  const Buffer out =
      got || (given && call.in_place) ? buffer(call.out, call.out_count, call.out_stream, call) : nullptr;
  if (given) given_ = call.in_place ? out : buffer(call.in, call.in_count, call.in_stream, call);
  if (got) got_ = out;
  call.on_device = false;
  call.in = call.in_place ? nullptr : data_of(given_);
  call.out = data_of(out);
}

DeviceStaging::~DeviceStaging() {
  for (const Buffer& buffer : {given_, got_}) {
    if (buffer) buffer->given_up = true;
  }
}

DeviceStaging::Buffer DeviceStaging::buffer(const void* data, std::size_t count, CudaStream stream,
                                            const CollectiveCall& call) {
  DeviceBytes bytes;
  bytes.data = data;
  bytes.size = count * call.element_bytes;
  bytes.stream = stream;
  Buffer made = device_.begin(bytes, to_string(call.collective).data());
  if (made) made->staging = device_.stage(bytes.size);
  return made;
}

Task DeviceStaging::bring(Operation& operation) {
  if (!given_) co_return;
  const auto copy = std::make_shared<Copy>();
  device_.read(given_, data_of(given_), -1, end_of(copy, given_));
  Task waited = wait(operation, copy);
  co_await waited;
}

Task DeviceStaging::take(Operation& operation) {
  if (!got_) co_return;
  const auto copy = std::make_shared<Copy>();
  device_.write(got_, std::span(data_of(got_), got_->bytes), -1, end_of(copy, got_));
  taken_ = true;
  Task waited = wait(operation, copy);
  co_await waited;
}

RankDevice::Ended DeviceStaging::end_of(const std::shared_ptr<Copy>& copy, const Buffer& buffer) {
  return [copy, buffer](const std::exception_ptr& failure) {
    copy->failure = failure;
    copy->over = true;
  };
}

Task DeviceStaging::wait(Operation& operation, std::shared_ptr<Copy> copy) {
  Until over(operation, IsOver{copy->over}, 1);
  co_await over;
  if (!copy->failure) co_return;
  const std::string name(to_string(operation.call().collective));
  throw error_of(copy->failure, name, {operation.group().rank(), -1, name, operation.number(), 0, 0, {}});
}

bool DeviceStaging::order(CudaStream stream) const { return taken_ && device_.order(*got_, stream); }

}  // namespace rondo::detail
