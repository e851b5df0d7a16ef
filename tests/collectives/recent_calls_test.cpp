#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "collectives/prepared.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using detail::CollectiveCall;
using detail::RecentCalls;

namespace {

double numbers[16];

CollectiveCall all_reduce_call() {
  return detail::reducing<double>(
      detail::call_on(Collective::all_reduce, std::span<const double>(numbers, 4), std::span(numbers + 8, 4), {}), sum);
}

detail::Prepared with_count(std::size_t count) {
  detail::Prepared prepared;
  prepared.call.count = count;
  return prepared;
}

}  // namespace

TEST_CASE("a call is known again when everything that decides about it is as before", "[collectives][recent]") {
  RecentCalls recent;
  CHECK(recent.find(all_reduce_call()) == nullptr);
  recent.add(all_reduce_call(), with_count(4));
  const RecentCalls::Known* const known = recent.find(all_reduce_call());
  REQUIRE(known != nullptr);
  CHECK(known->prepared.call.count == 4);

  CollectiveCall patient = all_reduce_call();
  patient.options.timeout = std::chrono::seconds(1);
  CHECK(recent.find(patient) == known);
}

TEST_CASE("a call that differs in anything that decides about it is not known", "[collectives][recent]") {
  const std::vector<std::size_t> counts{2, 2};
  const std::function<void(CollectiveCall&)> differences[] = {
      [](CollectiveCall& call) { call.collective = Collective::reduce; },
      [](CollectiveCall& call) { call.options.timeout = std::chrono::seconds(0); },
      [](CollectiveCall& call) { call.type = ElementType::int64; },
      [](CollectiveCall& call) { call.element_bytes = 4; },
      [](CollectiveCall& call) { call.in = numbers + 1; },
      [](CollectiveCall& call) { call.in_count = 3; },
      [](CollectiveCall& call) { call.out = numbers + 4; },
      [](CollectiveCall& call) { call.out_count = 5; },
      [](CollectiveCall& call) { call.in_place = true; },
      [](CollectiveCall& call) { call.root = 1; },
      [&](CollectiveCall& call) { call = detail::by_counts(std::move(call), counts); },
      [](CollectiveCall& call) { call.reduction = Reduction::of<double>(max); },
      [](CollectiveCall& call) { call.options.algorithm = Algorithm::direct; },
      [](CollectiveCall& call) { call.options.chunk_bytes = 512; },
      [](CollectiveCall& call) { call.options.deterministic = true; },
  };
  RecentCalls recent;
  recent.add(all_reduce_call(), {});
  for (std::size_t i = 0; i < std::size(differences); ++i) {
    CAPTURE(i);
    CollectiveCall other = all_reduce_call();
    differences[i](other);
    CHECK(recent.find(other) == nullptr);
  }
}

TEST_CASE("calls that a key does not tell apart are not kept", "[collectives][recent]") {
  const auto custom = [] {
    return detail::reducing<double>(all_reduce_call(), [](double a, double b) { return a + b; });
  };
  const std::vector<std::size_t> counts{2, 2};
  const auto uneven = [&] { return detail::by_counts(all_reduce_call(), counts); };
  RecentCalls recent;
  recent.add(custom(), {});
  recent.add(uneven(), {});
  CollectiveCall on_device = all_reduce_call();
  on_device.in_side = on_device.out_side = {true, nullptr};
  recent.add(on_device, {});
  detail::Prepared ordered;
  ordered.plan.deterministic = true;
  recent.add(all_reduce_call(), ordered);
  CHECK(recent.find(on_device) == nullptr);
  CHECK(recent.find(custom()) == nullptr);
  CHECK(recent.find(uneven()) == nullptr);
  CHECK(recent.find(all_reduce_call()) == nullptr);
}

TEST_CASE("of many calls the last ones are known", "[collectives][recent]") {
  RecentCalls recent;
  const auto rooted_at = [](int root) { return detail::rooted(all_reduce_call(), root); };
  for (int root = 0; root < 9; ++root) recent.add(rooted_at(root), with_count(static_cast<std::size_t>(root)));
  CHECK(recent.find(rooted_at(0)) == nullptr);
  for (int root = 5; root < 9; ++root) {
    CAPTURE(root);
    const RecentCalls::Known* const known = recent.find(rooted_at(root));
    REQUIRE(known != nullptr);
    CHECK(known->prepared.call.count == static_cast<std::size_t>(root));
  }
}
