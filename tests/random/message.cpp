#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "tests/random/job.hpp"

namespace rondo::testing {
namespace {

using Word = std::uint32_t;

class MessageEnd final : public Job {
 public:
  MessageEnd(const MessageStep& step, const Communicator& group, bool sends, Memory& memory, std::minstd_rand& own)
      : step_(step),
        sends_(sends),
        probes_(own() % 3 == 0),
        from_(sends ? group.rank() : (group.rank() + group.size() - step.shift) % group.size()),
        to_((from_ + step.shift) % group.size()),
        tag_(step.any_source ? step.id : 0),
        place_(memory.place(step.words * sizeof(Word), own() % 2 == 0)) {}

  Work call(Communicator& group, int, bool blocking) override {
    if (sends_) {
      for (std::size_t i = 0; i < step_.words; ++i) words()[i] = word(i);
      if (!blocking) return group.isend(words(), to_, tag_);
      group.send(words(), to_, tag_);
      return {};
    }
    int source = step_.any_source ? any_source : from_;
    if (!blocking) return group.irecv(words(), source, tag_);
    if (probes_) source = group.probe(source, tag_).source;
    check(group.recv(words(), source, tag_));
    return {};
  }

  void check(const Status& status) override {
    place_.check_margins();
    bool right = sends_ || (status.source == from_ && status.tag == tag_ && status.count<Word>() == step_.words);
    for (std::size_t i = 0; i < step_.words; ++i) right &= words()[i] == word(i);
    if (!right) throw std::runtime_error("message " + std::to_string(step_.id) + " is wrong");
  }

 private:
  std::span<Word> words() const { return place_.as<Word>(); }
  Word word(std::size_t i) const {
    return (step_.id + static_cast<Word>(from_) * 1009 + static_cast<Word>(i)) * 0x9e3779b1U;
  }

  const MessageStep& step_;
  const bool sends_, probes_;
  const int from_, to_;
  const Tag tag_;
  Place place_;
};

}  // namespace

std::unique_ptr<Job> make_message(const MessageStep& step, const Communicator& group, bool sends, Memory& memory,
                                  std::minstd_rand& own) {
  return std::make_unique<MessageEnd>(step, group, sends, memory, own);
}

}  // namespace rondo::testing
