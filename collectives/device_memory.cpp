#include "collectives/device_memory.hpp"

#include <algorithm>

namespace rondo::detail {
DeviceMemory::DeviceMemory(RankDevice& device, const CollectiveCall& call, const Arguments& arguments, int rank)
    : device_(device),
      element_bytes_(call.element_bytes),
      input_(cuda::address_of(arguments.input)),
      output_(cuda::address_of(arguments.output)) {
  const auto begin = [&](const void* data, std::size_t count, CudaStream stream) {
    DeviceBytes bytes;
    bytes.data = data;
    bytes.size = count * call.element_bytes;
    bytes.stream = stream;
    return device.begin(bytes, to_string(call.collective).data());
  };
  const bool given = gives(call, rank);
  const bool got = gets(call, rank);
  const Buffer out = got || (given && call.in_place) ? begin(call.out, call.out_count, call.out_side.stream) : nullptr;
  if (given) given_ = call.in_place ? out : begin(call.in, call.in_count, call.in_side.stream);
  if (got) got_ = out;
}

DeviceMemory::~DeviceMemory() {
  for (const Buffer& buffer : {given_, got_}) {
    if (buffer) buffer->given_up = true;
  }
}

Range DeviceMemory::scratch(std::size_t count) {
  const Range range{rondo::Buffer::scratch, scratch_count_, count};
  if (count == 0) return range;
  scratch_.push_back({scratch_count_, count, device_.scratch(count * element_bytes_)});
  scratch_count_ += count;
  return range;
}

const DeviceMemory::Scratch& DeviceMemory::scratch_of(const Range& range) const noexcept {
  return *std::find_if(scratch_.begin(), scratch_.end(), [&](const Scratch& scratch) {
    return range.begin >= scratch.begin && range.begin - scratch.begin < scratch.count;
  });
}

cuda::Address DeviceMemory::address(const Range& range) const noexcept {
  if (range.count == 0) return 0;
  if (range.buffer == rondo::Buffer::input) return input_ + range.begin * element_bytes_;
  if (range.buffer == rondo::Buffer::output) return output_ + range.begin * element_bytes_;
  const Scratch& scratch = scratch_of(range);
  return scratch.memory->address + (range.begin - scratch.begin) * element_bytes_;
}

const cuda::PointerFacts& DeviceMemory::facts(const Range& range) const noexcept {
  return range.buffer == rondo::Buffer::scratch ? scratch_of(range).memory->memory : buffer_of(range).memory;
}

void DeviceMemory::check_there(const Range& range) const {
  if (range.count == 0 || range.buffer == rondo::Buffer::scratch) return;
  const cuda::Current current(device_.opened()->context);
  device_.check_there(buffer_of(range));
}

const DeviceBuffer& DeviceMemory::buffer_of(const Range& range) const noexcept {
  return range.buffer == rondo::Buffer::output && got_ ? *got_ : *given_;
}

}  // namespace rondo::detail
