// What Python hands over to a kernel.
#pragma once

#include <cstdint>

namespace unspool {

struct Place {  // in an array, or nowhere: −1
    int64_t array, at;
};
// What is handed over: numbers and addresses, eight bytes each, then tables of addresses in the order of `Plan`'s.
extern "C" struct Call {
    int64_t steps, batch, threads, reverse;
    const int64_t* sizes;
    const Place (*places)[2];  // of each parameter, and of what is added to it
    int64_t arrays;            // that parameters lie in
    const int64_t* lengths;    // or null: all are `steps`
    int64_t given;             // START, TRACE, SAME, FORKED, INT8, WAVE, UNSPLIT
    const void* x;             // (T, B, input and further inputs)
    void* out;                 // (T, B, width of the first state)
    void* packed;              // the matrices as `Packing` lays them out, packed before by `unspool_pack`; or null
    void* tape;                // (T, B, record) or null: keep nothing
    const void* d_out;         // (T, B, width), with SAME (width), or null: zero
    void* d_x;                 // or null: not wanted
    void* tables[1];
};
enum { START = 1, TRACE = 2, SAME = 4, FORKED = 8, INT8 = 16, WAVE = 256, UNSPLIT = 512 };  // UNSPLIT: a thread does not take some of the rows

}  // namespace unspool
