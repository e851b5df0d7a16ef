#include "collectives/collective_operation.hpp"

#include <utility>

#include <rondo/algorithm/dispatch.hpp>

namespace rondo::detail {

CollectiveOperation::CollectiveOperation(Group& group, const Call& call, CollectiveCall request,
                                         const Arguments& arguments, Plan plan)
    : Operation(group, call, request.options.timeout),
      memory_(group.engine(), request.element_bytes, std::move(request.reduction)),
      plan_(std::move(plan)),
      port_(*this, memory_, arguments.in_place) {
  memory_.set(arguments.input, arguments.output);
}

Task CollectiveOperation::body() { return run_collective(port_, plan_); }

}  // namespace rondo::detail
