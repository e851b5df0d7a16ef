#include <fmt/format.h>

#include "transport/handshake.hpp"
#include "transport/printable.hpp"

namespace rondo::detail {
namespace {

std::string who(const HandshakeTerms& terms) {
  return terms.rank == kHubRank ? "the hub" : fmt::format("rank {}", terms.rank);
}

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pending: return "pending";
    case Verdict::accepted: return "accepted";
    case Verdict::crossed: return "crossed";
    case Verdict::duplicate_rank: return "duplicate rank";
    case Verdict::wrong_key: return "wrong key";
    case Verdict::other_job: return "other job";
    case Verdict::other_attempt: return "other attempt";
    case Verdict::other_version: return "other version";
    case Verdict::other_size: return "other size";
    case Verdict::other_role: return "other role";
    case Verdict::wrong_rank: return "wrong rank";
    case Verdict::closing: return "closing";
    case Verdict::garbage: return "garbage";
  }
  return "unknown";
}

std::string Handshake::text() const {
  const std::string other = who(peer_);
  switch (verdict_) {
    case Verdict::pending: return fmt::format("{} has not finished its handshake", other);
    case Verdict::accepted: return fmt::format("{} is accepted", other);
    case Verdict::crossed:
      return fmt::format("{} and {} called each other at the same time: the call of the lower rank stays", other,
                         who(mine_));
    case Verdict::duplicate_rank:
      return fmt::format("rank {} is claimed twice: another process already has it",
                         initiator_ ? mine_.rank : peer_.rank);
    case Verdict::wrong_key:
      if (peer_has_key_ != key_.present) {
        return fmt::format("wrong key: {} has {}, wanted {}", other, peer_has_key_ ? "a job key" : "no job key",
                           key_.present ? "the job's key" : "none");
      }
      return told_by_peer_ ? fmt::format("wrong key: {} does not know the job key that {} has", other, who(mine_))
                           : fmt::format("wrong key: the proof of {} does not fit the job key", other);
    case Verdict::other_job:
      return fmt::format("other job: {} belongs to job \"{}\", wanted \"{}\"", other, printable(peer_.job_id),
                         printable(mine_.job_id));
    case Verdict::other_attempt:
      return fmt::format("other attempt: {} belongs to attempt {}, wanted {}", other, peer_.attempt, mine_.attempt);
    case Verdict::other_version:
      return told_by_peer_
                 ? fmt::format("other version: {} does not speak version {}", other, kVersion)
                 : fmt::format("other version: {} speaks version {}, wanted {}", other, peer_version_, kVersion);
    case Verdict::other_size:
      return fmt::format("other size: {} counts {} ranks, wanted {}", other, peer_.size, mine_.size);
    case Verdict::other_role: return fmt::format("other role: {} uses this address for something else", other);
    case Verdict::wrong_rank:
      if (initiator_ && told_by_peer_) {
        return fmt::format("wrong rank: {} refuses rank {} of {} that calls rank {}", other, mine_.rank, mine_.size,
                           mine_.peer);
      }
      return fmt::format("wrong rank: got {} that calls {}, wanted {} in a world of {}", other, peer_.peer,
                         mine_.peer >= kHubRank ? fmt::format("rank {}", mine_.peer) : "a rank", mine_.size);
    case Verdict::closing:
      return fmt::format("the job of {} ends, or is over for {}", initiator_ ? other : who(mine_),
                         initiator_ ? who(mine_) : other);
    case Verdict::garbage: break;
  }
  const std::string_view got(reinterpret_cast<const char*>(input_.data()), input_.size());
  return fmt::format("no rondo at the other end: got \"{}\", wanted a handshake", printable(got, 16));
}

}  // namespace rondo::detail
