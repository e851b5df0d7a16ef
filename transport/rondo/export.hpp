#pragma once

/// Marks what the shared library shows; everything else is hidden.
#define RONDO_EXPORT __attribute__((visibility("default")))
