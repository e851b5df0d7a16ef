#pragma once

#include <string>

#include <rondo/communicator.hpp>
#include <rondo/export.hpp>
#include <rondo/init_options.hpp>

namespace rondo {

/// Joins the job that this process was started for, and returns the communicator of all its ranks.
///
/// Who this rank is, first hit wins: `options`; RONDO_* (rondo-run); torchrun's RANK, WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT; Open MPI's, MPICH's and Slurm's variables; a world of one when none of them is there. Blocks until all
/// ranks have come. Once its communicators are closed and its Works waited for, init may be called again for another
/// job, where the ranks meet at an address or a file (those of rondo-run meet once): it waits until the job before is
/// over there.
///
/// Throws Error: Errc::bootstrap_failed with the ranks that never came, bad_configuration, authentication,
/// address_in_use, duplicate_rank, invalid_argument.
[[nodiscard]] RONDO_EXPORT Communicator init(const InitOptions& options = {});

/// "0.1.0"
RONDO_EXPORT std::string version();

}  // namespace rondo
