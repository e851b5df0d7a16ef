#pragma once

#include <memory>

#include <rondo/communicator.hpp>
#include <rondo/options.hpp>

#include "bench/call_end.hpp"
#include "bench/measure.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// rondo's operation on buffers of `shape`, made on every rank. The arguments outlive the exercise.
std::unique_ptr<Exercise> make_exercise(Communicator& communicator, const Settings& settings, const Shape& shape);

// The families of operations, one file each; `make_exercise` knows which is which.
// `end`: of calls on devices, which it outlives; others have none.
std::unique_ptr<Exercise> make_point_to_point(Communicator& communicator, const Settings& settings, const Shape& shape,
                                              const CallEnd* end);
std::unique_ptr<Exercise> make_reducing(Communicator& communicator, const Settings& settings, const Shape& shape,
                                        const CallEnd* end);
std::unique_ptr<Exercise> make_moving(Communicator& communicator, const Settings& settings, const Shape& shape,
                                      const CallEnd* end);

/// What the settings ask of each call.
Options call_options(const Settings& settings);

}  // namespace rondo::bench
