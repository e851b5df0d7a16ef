#pragma once

/// All of rondo: ranks, messages between two of them, collectives of all.

#include <rondo/all_gather.hpp>
#include <rondo/all_reduce.hpp>
#include <rondo/all_to_all.hpp>
#include <rondo/allocate.hpp>
#include <rondo/any_span.hpp>
#include <rondo/barrier.hpp>
#include <rondo/bfloat16.hpp>
#include <rondo/broadcast.hpp>
#include <rondo/call.hpp>
#include <rondo/communicator.hpp>
#include <rondo/config.hpp>
#include <rondo/cuda.hpp>
#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/error.hpp>
#include <rondo/float16.hpp>
#include <rondo/gather.hpp>
#include <rondo/init.hpp>
#include <rondo/op.hpp>
#include <rondo/options.hpp>
#include <rondo/reduce.hpp>
#include <rondo/reduce_scatter.hpp>
#include <rondo/scatter.hpp>
#include <rondo/status.hpp>
#include <rondo/tuning.hpp>
#include <rondo/work.hpp>
