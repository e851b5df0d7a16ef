#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

namespace rondo::testing {

/// A collective, blocking and started, each time on the same buffers.
struct CollectiveCall {
  const char* name;
  std::function<void()> call;
  std::function<Work()> start;
};

/// Every collective, of `all` or, where ranks have shares, of this rank's `own`; `in` is as long as `all`. Nothing but
/// the library allocates in them.
inline std::vector<CollectiveCall> collective_calls(Communicator& world, std::span<double> own,
                                                    std::span<const double> in, std::span<double> all) {
  const std::span<const double> own_in = own;
  auto* const comm = &world;
  return {
      {"all_reduce", [=] { all_reduce(*comm, all, max); }, [=] { return iall_reduce(*comm, all, max); }},
      {"reduce", [=] { reduce(*comm, all, max, 0); }, [=] { return ireduce(*comm, all, max, 0); }},
      {"broadcast", [=] { broadcast(*comm, all, 0); }, [=] { return ibroadcast(*comm, all, 0); }},
      {"gather", [=] { gather(*comm, own_in, all, 0); }, [=] { return igather(*comm, own_in, all, 0); }},
      {"scatter", [=] { scatter(*comm, in, own, 0); }, [=] { return iscatter(*comm, in, own, 0); }},
      {"all_gather", [=] { all_gather(*comm, own_in, all); }, [=] { return iall_gather(*comm, own_in, all); }},
      {"reduce_scatter", [=] { reduce_scatter(*comm, in, own, max); },
       [=] { return ireduce_scatter(*comm, in, own, max); }},
      {"all_to_all", [=] { all_to_all(*comm, in, all); }, [=] { return iall_to_all(*comm, in, all); }},
      {"all_to_all in place", [=] { all_to_all(*comm, all); }, [=] { return iall_to_all(*comm, all); }},
      {"barrier", [=] { barrier(*comm); }, [=] { return ibarrier(*comm); }},
  };
}

}  // namespace rondo::testing
