// The functions of a cell's library. A library is for one type of number, UNSPOOL_REAL, and either for training and
// inference or, with UNSPOOL_TRACE, for traces: each is built when it is first needed. Only these functions are seen from
// outside, since the libraries of several cells live in one process and must not share anything. With UNSPOOL_LINKED the
// products, which are the same for every cell, are compiled elsewhere.
#pragma once

#include "forward.h"
#include "outer.h"
#if !UNSPOOL_TRACE
#include "backward.h"
#endif
#if UNSPOOL_LINKED
UNSPOOL_PRODUCTS(extern, UNSPOOL_REAL)
UNSPOOL_INT8_PRODUCTS(extern)
#endif

namespace unspool {

// A call returns 0, or 1 if there was not enough memory.
template <typename Pass> int run(const void* call) noexcept {
    try {
        const Call& asked = *static_cast<const Call*>(call);
        if (asked.given & FORKED) OpenMP::forked = true;  // before this library was loaded, perhaps
        Pass(asked).run();
        return 0;
    } catch (...) {
        return 1;
    }
}

}  // namespace unspool

#define UNSPOOL_SEEN extern "C" __attribute__((visibility("default")))
#define UNSPOOL_FORWARD(Cell) \
    UNSPOOL_SEEN int unspool_forward(const void* call) { return unspool::run<unspool::Forward<Cell, UNSPOOL_REAL>>(call); }
#define UNSPOOL_PACK(Cell) \
    UNSPOOL_SEEN int unspool_pack(const void* call) { return unspool::run<unspool::Pack<Cell, UNSPOOL_REAL>>(call); }
#define UNSPOOL_BACKWARD(Cell) \
    UNSPOOL_SEEN int unspool_backward(const void* call) { return unspool::run<unspool::Backward<Cell, UNSPOOL_REAL>>(call); }
#define UNSPOOL_WAVE() \
    UNSPOOL_SEEN int unspool_wave(const void* wave) { return unspool::run_wave(wave); }
#if UNSPOOL_TRACE
#define UNSPOOL_EXPORT(Cell) UNSPOOL_FORWARD(Cell)
#else
#define UNSPOOL_EXPORT(Cell) UNSPOOL_FORWARD(Cell) UNSPOOL_BACKWARD(Cell) UNSPOOL_PACK(Cell) UNSPOOL_WAVE()
#endif
