#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/simulation/loggp.hpp"

namespace rondo::simulation {

/// What happens next. Events of one time come out in the order in which they went in, so a simulation runs the same
/// way every time.
///
/// Ranks in step make events of one time by the thousand, one after the other: those are one run, a list, and the heap
/// orders runs.
template <typename Event>
class EventQueue {
 public:
  bool empty() const noexcept { return heap_.empty(); }

  /// `time` is not before that of the last event popped.
  void push(Time time, const Event& event) {
    const std::uint32_t link = keep({event, kNone});
    if (newest_ != kNone && newest_time_ == time) {
      links_[runs_[newest_].last].next = link;
      runs_[newest_].last = link;
      return;
    }
    newest_ = make_run({link, link});
    newest_time_ = time;
    heap_.push_back({time, ++pushed_, newest_});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  std::pair<Time, Event> pop() {
    const Entry first = heap_.front();
    Run& run = runs_[first.run];
    const std::uint32_t taken = run.first;
    const std::pair<Time, Event> result{first.time, links_[taken].event};
    if (taken == run.last) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      free_runs_.push_back(first.run);
      if (newest_ == first.run) newest_ = kNone;
    } else {
      run.first = links_[taken].next;
    }
    links_[taken].next = free_links_;
    free_links_ = taken;
    return result;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Link {
    Event event;
    std::uint32_t next;
  };
  struct Run {
    std::uint32_t first;
    std::uint32_t last;
  };
  struct Entry {
    Time time;
    std::uint64_t number;
    std::uint32_t run;
  };

  static bool later(const Entry& a, const Entry& b) { return a.time != b.time ? a.time > b.time : a.number > b.number; }

  std::uint32_t keep(const Link& link) {
    if (free_links_ == kNone) {
      links_.push_back(link);
      return static_cast<std::uint32_t>(links_.size() - 1);
    }
    const std::uint32_t index = free_links_;
    free_links_ = links_[index].next;
    links_[index] = link;
    return index;
  }

  std::uint32_t make_run(const Run& run) {
    if (free_runs_.empty()) {
      runs_.push_back(run);
      return static_cast<std::uint32_t>(runs_.size() - 1);
    }
    const std::uint32_t index = free_runs_.back();
    free_runs_.pop_back();
    runs_[index] = run;
    return index;
  }

  std::vector<Entry> heap_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::vector<Link> links_;
  std::uint32_t free_links_ = kNone;
  std::uint32_t newest_ = kNone;  ///< the run that events of its time may still join
  Time newest_time_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace rondo::simulation
