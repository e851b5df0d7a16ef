#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <rondo/device_span.hpp>
#include <rondo/error.hpp>

#include "cuda/copies.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/export_registry.hpp"
#include "cuda/pointer.hpp"
#include "cuda/reduction.hpp"
#include "cuda/staging.hpp"
#include "runtime/log.hpp"

namespace rondo::detail {

inline cuda::StreamHandle handle_of(CudaStream stream) { return static_cast<cuda::StreamHandle>(stream); }

/// What a caller gave of a device's memory, from the call to the end of what moves it.
struct DeviceBuffer {
  cuda::Address address = 0;
  std::size_t bytes = 0;
  cuda::PointerFacts memory;
  CudaStream stream = nullptr;
  cuda::EventHandle before = nullptr;             ///< all that the stream had been given before the call
  std::shared_ptr<cuda::Staging::Block> staging;  ///< for a payload that goes through the host
  std::shared_ptr<cuda::Copies::Running> copy;    ///< the last
  bool given_up = false;                          ///< what still runs has nobody to tell
  bool unwanted = false;                          ///< its receiver has given it up
};

/// A collective on memory of devices, as those of its communicator that come after it see it.
struct CollectiveInRow {
  /// What others are yet to do for it, on their devices. Nothing of this rank's waits for it unasked: a device that
  /// waits for another process's work has to be given to this process first, only to find it done.
  struct End {
    int member;
    int world_rank;
    cuda::EventTicket ticket;
  };
  std::vector<End> ends;
  bool all_queued = false;  ///< those are all
  bool over = false;        ///< and so is what this rank's queue had
  bool of_leader = false;   ///< the first rank of the communicator does all, on its queue
  bool on_host = false;     ///< it goes through the host: nothing of it is queued for others to follow
  bool given_up = false;    ///< nobody asks any more
  /// Of this rank's memory.
  struct Bytes {
    bool overlaps(const Bytes& other) const noexcept { return begin < other.end && other.begin < end; }

    cuda::Address begin = 0;
    cuda::Address end = 0;
  };
  Bytes given, got;
  /// The last before it that may not be over.
  std::shared_ptr<const CollectiveInRow> before{};
  bool has_followed = false;  ///< this rank's queue comes after all of those

  /// One of the two writes what the other one needs.
  bool depends_on(const CollectiveInRow& other) const noexcept {
    return got.overlaps(other.got) || got.overlaps(other.given) || given.overlaps(other.got);
  }
};

/// Memory of a device that a collective takes for a while.
struct DeviceScratch {
  cuda::Address address = 0;
  cuda::PointerFacts memory;
};

/// A failure of the driver as users see it: a CudaError of something under way, and what came of a call. The text
/// begins with `what`. The peer is the failure's where `facts` have none.
Error error_of(const std::exception_ptr& failure, const std::string& what, Error::Facts facts);
Error error_of(const cuda::CudaError& refusal, const char* operation, const std::string& what = {});

/// The device of this rank: that of the first memory that it speaks of. Nothing of CUDA is loaded before.
///
/// One for an engine, under its lock.
class RankDevice {
 public:
  /// Events that others wait for.
  static constexpr std::size_t kEvents = 64;
  /// The driver shares whole ones of this size.
  static constexpr std::size_t kDriverBlock = std::size_t{2} << 20;

  /// Of a collective that goes through the host; the same on all ranks.
  std::size_t piece_bytes = std::size_t{4} << 20;
  /// Among the ranks of this machine: whose device it is where the first memory is one that it makes.
  int local_rank = 0;

  explicit RankDevice(const Log& log) : log_(log) {}
  ~RankDevice();
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;

  /// What the caller gave; nothing for no bytes. Throws Error, naming the operation.
  std::shared_ptr<DeviceBuffer> begin(const DeviceBytes& bytes, const char* operation);
  /// Nothing can be queued for the host to ask about on a stream that is being captured: throws Error, naming the
  /// operation. Any stream is good as long as there is no device.
  void check_stream(CudaStream stream, const char* operation) const;

  // Copies of so much of a buffer, from `offset` on, after what was queued on the caller's stream before. `peer` is for
  // errors, which are CudaErrors; what is copied from or to must live until `ended`, which owns it best.
  using Ended = std::function<void(const std::exception_ptr&)>;
  void read(const std::shared_ptr<DeviceBuffer>& buffer, std::span<std::byte> to, int peer, Ended ended,
            std::size_t offset = 0);
  void write(const std::shared_ptr<DeviceBuffer>& buffer, std::span<const std::byte> from, int peer, Ended ended,
             std::size_t offset = 0);
  /// A copy of any kind, or none, when it is `ready` and the caller's stream has come to where the buffer may be used.
  /// Asked by the host: a stream of rondo's that waited for it would keep other streams' copies waiting.
  void start(const std::shared_ptr<DeviceBuffer>& buffer, cuda::Copies::Copy copy, Ended ended);
  /// Whether the caller's stream has come there. Throws CudaError.
  bool came(const DeviceBuffer& buffer) const;
  /// Has a stream wait for that instead. Throws CudaError, as where the memory of the buffer is no longer what the
  /// caller gave. A context is current.
  void follow(const DeviceBuffer& buffer, cuda::StreamHandle stream) const;
  /// Throws CudaError where the memory of the buffer is no longer what the caller gave. A context is current.
  void check_there(const DeviceBuffer& buffer) const;
  /// Memory of the host for that.
  std::shared_ptr<cuda::Staging::Block> stage(std::size_t bytes);
  /// The same of memory that there is already.
  std::unique_ptr<cuda::Pinned> pin(std::span<std::byte> memory);
  /// What is queued on the stream from here on comes after the buffer's last copy, which is hastened. False: that is
  /// not queued yet, or has failed.
  bool order(const DeviceBuffer& buffer, CudaStream stream) const;

  struct Allocation {
    cuda::Address address = 0;
    std::size_t bytes = 0;
  };
  /// Of a size that others map without mapping anything else. Throws Error, naming the operation.
  Allocation allocate(std::size_t bytes, const char* operation);
  /// The allocation in which this lies. Throws Error, naming the operation.
  Allocation find(const DeviceBytes& bytes, const char* operation);
  /// All others have unmapped what was retired, and the device has come to the end of what may wait for them: to free
  /// anything waits for all of it, without hearing of anybody's death.
  bool is_released(const Allocation& allocation) noexcept;
  /// What its owner has given up, and is freed once it is released, at the end of this at the latest.
  std::vector<Allocation>& parked() noexcept { return parked_; }
  /// Frees of that what can be freed now. Throws CudaError.
  void free_parked();

  /// What there is once there is a device.
  struct Opened {
    Opened(const cuda::Driver& driver, cuda::Device number);

    cuda::PrimaryContext context;
    cuda::Uuid uuid{};
    cuda::LocalEvents local_events;
    std::string why_no_events;  ///< that others could wait for: then none of this rank's memory is mapped, nor theirs
    cuda::EventPool events;
    cuda::ExportRegistry exports;
    cuda::Staging staging;
    cuda::Copies copies;                                ///< of messages
    std::multimap<std::size_t, cuda::Address> scratch;  ///< that nobody uses, by its size
    /// Loaded with the rest: later that might wait for the device to drain, in the middle of the user's work.
    std::optional<cuda::Reductions> reductions;
    std::string why_no_reductions;  ///< none were compiled, or none for this device

    /// Where the collectives of a communicator are queued: those of one come one after the other, those of several do
    /// not wait for each other's streams. Throws CudaError.
    struct Queue {
      explicit Queue(Opened& device) : copies(device.context, device.local_events) {}

      cuda::Copies copies;
      std::uint64_t communicator = 0;
      std::weak_ptr<const CollectiveInRow> last;  ///< as long as it is not over
    };
    std::shared_ptr<Queue> queue_of(std::uint64_t communicator);
    std::vector<std::shared_ptr<Queue>> queues;  ///< as many as communicators have been at work at the same time

   private:
    void load_reductions();
  };
  Opened* opened() const noexcept { return opened_.get(); }

  /// A communicator has failed: its events come back.
  void give_up_events(std::uint64_t communicator) noexcept;
  /// Memory of the device that goes back to where it came from with the last who holds it. Where there is none left of
  /// the size that would be kept, more of what is kept already, or else as little as will do. Throws CudaError.
  std::shared_ptr<DeviceScratch> scratch(std::size_t bytes);

  /// Of one that is opened. Never blocks, never throws. Returns how much moved.
  std::size_t poll();
  /// The caller's stream waits for another process from here on. Throws CudaError.
  void note_wait(CudaStream stream);
  /// Such a stream has not come further.
  bool streams_wait() noexcept;
  /// Something that rondo has queued on the device, or such a stream, may wait for another process there.
  bool waits_for_others() noexcept;
  /// That, or a stream of the caller's has yet to come to a call, for whatever reason: whatever waits for the device
  /// would, too.
  bool may_wait() noexcept;
  /// Nothing does, and no copy is under way.
  bool drained() noexcept;
  /// The device is at work: nobody rings when it is done.
  bool busy() const noexcept;
  /// Waits for what has been queued, for so long at the most, and tells nobody.
  void stop(std::chrono::nanoseconds patience = cuda::Copies::kPatience) noexcept;
  /// That came to no end, or a stream of the caller's has not: it waits for another process, which may have died.
  bool stuck() const noexcept { return stuck_; }
  /// Others have open what this rank has made for them, and did not close it in time: its events stay as they are.
  void keep_for_others() noexcept { kept_for_others_ = true; }
  /// Keeps what a device that is stuck may still use, to the end of the process.
  static void leave_to_driver(std::shared_ptr<void> held);

 private:
  cuda::Device first_device(const cuda::Driver& driver) const;
  cuda::PointerFacts facts_of(const cuda::Driver& driver, cuda::Address address) const;
  cuda::PointerFacts classify(const DeviceBytes& bytes, const cuda::Driver& driver, const char* operation) const;
  bool is_due(const DeviceBuffer& buffer) const;
  bool streams_are_late() noexcept;
  /// There is a device. Throws CudaError.
  Allocation take(std::size_t bytes);
  Allocation take_scratch(std::size_t bytes);
  /// Nothing: no memory is left. Throws CudaError.
  std::optional<Allocation> take_if_there(std::size_t bytes);
  /// Throws CudaError.
  void free(const Allocation& allocation);
  /// As far as nothing need be waited for. Throws CudaError.
  void free_unmapped_scratch();
  /// What nobody needs any more, but for what others still map.
  void free_the_rest() noexcept;
  Opened& open_for(const cuda::PointerFacts& memory, const cuda::Driver& driver, const char* operation);
  /// Says in the log, once, that memory for copies is not pinned.
  void note_unpinned();

  const Log& log_;
  bool noted_unpinned_ = false;
  std::vector<Allocation> parked_;
  std::set<const DeviceBuffer*> late_;    ///< before which their streams had something to do when last seen
  std::vector<cuda::EventHandle> waits_;  ///< recorded on the caller's streams behind what they wait for
  std::unique_ptr<Opened> opened_;
  bool stuck_ = false;
  bool kept_for_others_ = false;
};

}  // namespace rondo::detail
