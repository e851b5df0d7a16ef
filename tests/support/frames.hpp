#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "transport/descriptor.hpp"
#include "transport/link.hpp"

namespace rondo::testing {

/// A frame that a test sends, with its payload.
struct TestFrame : detail::Outgoing {
  TestFrame(std::uint32_t tag, std::vector<std::byte> bytes) : storage(std::move(bytes)) {
    header.tag = tag;
    header.bytes = storage.size();
    payload = storage;
    on_sent = [](detail::Outgoing& frame) noexcept { ++static_cast<TestFrame&>(frame).sent; };
  }
  std::vector<std::byte> storage;
  int sent = 0;
};

/// Payload whose every byte tells where it belongs.
inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 131 + i / 251 + seed * 17) & 0xff);
  return data;
}

/// Keeps what arrives; can refuse payloads that come in pieces.
class Recorder final : public detail::Sink {
 public:
  struct Frame {
    detail::FrameHeader header;
    std::vector<std::byte> payload;
  };

  void deliver(const detail::FrameHeader& header, std::span<const std::byte> payload) override {
    frames.push_back({header, {payload.begin(), payload.end()}});
  }
  bool expects(const detail::FrameHeader&) const override { return expecting; }
  std::byte* accept(const detail::FrameHeader& header) override {
    if (refuse != 0 && header.tag == refuse) return nullptr;
    if (throw_at != 0 && header.tag == throw_at) throw std::bad_alloc();
    landing.assign(static_cast<std::size_t>(header.bytes), std::byte{0});
    return landing.data();
  }
  void arrived(const detail::FrameHeader& header) override { frames.push_back({header, std::move(landing)}); }
  void passed(detail::Descriptor descriptor, std::uint64_t number) override {
    descriptors.emplace_back(number, std::move(descriptor));
  }
  void closed(const std::string& why) override {
    ++closed_count;
    cause = why;
  }

  std::vector<Frame> frames;
  std::vector<std::byte> landing;
  std::vector<std::pair<std::uint64_t, detail::Descriptor>> descriptors;
  bool expecting = true;
  std::uint32_t refuse = 0;    // the tag of a frame whose payload is not wanted
  std::uint32_t throw_at = 0;  // the tag of one for which there is no memory
  int closed_count = 0;
  std::string cause;
};

}  // namespace rondo::testing
