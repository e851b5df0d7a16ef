#pragma once

#if __cplusplus < 202002L
#error "rondo needs C++20: compile with -std=c++20"
#endif

/// Marks what the shared library shows; everything else is hidden.
#define RONDO_EXPORT __attribute__((visibility("default")))
