#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/random/job.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

/// What has been called and not waited for.
struct Pending {
  int group;
  std::unique_ptr<Job> job;
  Work work;
};

/// One thread of one rank.
class Thread {
 public:
  Thread(const Program& program, std::size_t number, Communicator whole, const std::function<void()>& die)
      : program_(program),
        script_(program.threads[number]),
        own_(static_cast<std::uint32_t>(program.seed * 1009 + static_cast<std::uint64_t>(whole.rank()) * 31 + number)),
        memory_(own_),
        culprit_(number == 0 && whole.rank() == program.culprit),
        die_(die) {
    groups_.push_back(std::move(whole));
  }

  void run() {
    try {
      for (; now_ < script_.size(); ++now_) {
        if (culprit_ && program_.end == Program::End::death && now_ == program_.fatal_step) die_();
        dally();
        std::visit([this](const auto& step) { take(step); }, script_[now_]);
        look_after_one();
        if (own_() % 6 == 0) memory_.give_one_up();
      }
      while (!pending_.empty()) finish(own_() % pending_.size());
    } catch (const Error& error) {
      throw Error(error.code(), where() + error.what());
    } catch (const std::exception& error) {
      throw std::runtime_error(where() + error.what());
    }
    if (own_() % 2 == 0) std::ranges::shuffle(groups_, own_);
    groups_.clear();
  }

 private:
  std::string where() const {
    std::string text = "in step " + std::to_string(now_);
    if (const auto* const step = now_ < script_.size() ? std::get_if<CollectiveStep>(&script_[now_]) : nullptr) {
      text += ", " + std::string(to_string(step->collective)) + " in group " + std::to_string(step->group);
    }
    return text + ": ";
  }
  Communicator& group(int number) { return groups_[static_cast<std::size_t>(number)]; }

  /// Others get ahead, or not; what is under way is left to the helper now and then.
  void dally() {
    if (own_() % 12 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
    if (own_() % 8 == 0) std::this_thread::yield();
    dawdle(own_);
  }

  void take(const CollectiveStep& step) {
    Communicator& members = group(step.group);
    if (!members) return;
    if (culprit_ && program_.end == Program::End::mistake && now_ >= program_.fatal_step && members.size() > 1) {
      return call_another(step, members);
    }
    auto job = make_collective(step, members, memory_, own_);
    for (int repeat = 0; repeat < step.repeats; ++repeat) {
      Work work = job->call(members, repeat, own_() % 2 == 0);
      if (!work.valid()) continue;
      if (repeat + 1 == step.repeats) return pending_.push_back({step.group, std::move(job), std::move(work)});
      work.wait();
      job->check({});
    }
  }
  void call_another(const CollectiveStep& step, Communicator& members) {
    int one = 1;
    if (step.collective == Collective::barrier) {
      all_reduce(members, std::span(&one, 1), sum);
    } else {
      barrier(members);
    }
    throw std::runtime_error("a collective that others did not call came to its end");
  }

  void take(const MessageStep& step) {
    Communicator& members = group(step.group);
    if (!members) return;
    const bool sends_first = own_() % 2 == 0;
    for (const bool sends : {sends_first, !sends_first}) {
      auto job = make_message(step, members, sends, memory_, own_);
      // Who blocks waits for what all others have started, or block in.
      Work work = job->call(members, 0, sends != sends_first && own_() % 2 == 0);
      if (work.valid()) pending_.push_back({step.group, std::move(job), std::move(work)});
    }
  }

  void take(const AllocateStep& step) {
    if (Communicator& members = group(step.group)) memory_.add(allocate<std::byte>(members, step.bytes));
  }

  void take(const MakeGroupStep& step) {
    Communicator& parent = group(step.parent);
    Communicator made;
    if (parent && step.ranks.empty()) {
      made = parent.dup();
    } else if (parent && step.by_split) {
      const auto found = std::ranges::find(step.ranks, parent.rank());
      made = parent.split(found == step.ranks.end() ? 1 : 0, static_cast<int>(found - step.ranks.begin()));
      if (found == step.ranks.end()) made = {};
    } else if (parent) {
      made = parent.subgroup(step.ranks);
    }
    groups_.push_back(std::move(made));
  }

  void take(const CloseGroupStep& step) {
    for (std::size_t i = pending_.size(); i-- > 0;) {
      if (pending_[i].group == step.group) finish(i);
    }
    group(step.group) = {};
  }

  /// Waits for something that is under way, or looks at it, or leaves it.
  void look_after_one() {
    if (pending_.empty()) return;
    const std::size_t which = own_() % pending_.size();
    Work& work = pending_[which].work;
    switch (own_() % 8) {
      case 0: return work.test() ? finish(which) : void();
      case 1: return work.wait_for(std::chrono::microseconds(own_() % 200)) ? finish(which) : void();
      case 2: return finish(which);
      default: return pending_.size() > 24 ? finish(which) : void();
    }
  }
  void finish(std::size_t which) {
    Pending one = std::move(pending_[which]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
    one.work.wait();
    one.job->check(one.work.status());
  }

  const Program& program_;
  const Script& script_;
  std::minstd_rand own_;  ///< of this rank
  Memory memory_;
  const bool culprit_;
  const std::function<void()>& die_;
  std::vector<Communicator> groups_;
  std::size_t now_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace

void run_rank(const Program& program, Communicator& world, const std::function<void()>& die) {
  CommunicatorAccess::engine(world)->agree(program.crowded, program.hosts);
  std::vector<Communicator> wholes(program.threads.size());
  for (Communicator& whole : wholes) whole = world.dup();
  std::vector<std::exception_ptr> errors(wholes.size());
  const auto run_thread = [&](std::size_t i) {
    try {
      Thread(program, i, std::move(wholes[i]), die).run();
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < wholes.size(); ++i) others.emplace_back(run_thread, i);
  run_thread(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  if (!program.leaves_at_once) barrier(world);
}

}  // namespace rondo::testing
