// What a cell's emitted loops see of one step, and how they walk over the units of a row.
#pragma once

#include <cmath>

#include "functions.h"
#include "vector.h"

namespace unspool {

enum Origin { FROM_X, FROM_STATE, FROM_VALUE };
struct Parameter {
    int rows, columns;  // sizes; columns −1 for a vector
};
struct Map {
    int width, bias;  // a size; a parameter or −1
};
struct Group {  // maps first … first+count−1 read one operand; their matrices stand from `matrices` on
    Origin origin;
    int index, first, count, matrices;
};
struct Block {  // maps first … first+count−1, needed at a level, read the operands of groups readers[from … from+groups)
    int first, count, level, from, groups;
};
struct Back {  // the gradient of an operand through its maps, needed at a level
    int operand, level;
};

// Letters: r a row among those a thread works on, b = index[r] its place in the batch.
// Pointers to whole batches (x, out, tape, trace, d_out, d_x) stand at the present step.
template <typename real> struct Frame {
    int rows;
    const int64_t* index;
    const int64_t* sizes;
    const int64_t* first;  // by size: the units that this thread works on
    const int64_t* last;
    const real* const* parameters;
    const real* x;
    const real* const* const* before;  // [state][r]
    real* const* after;                // [state] + r · width
    real* out;
    real* const* trace;
    real* tape;
    int64_t tape_stride;
    const int64_t* slot_at;
    const int64_t* after_at;
    real* maps;
    real* d_maps;
    int64_t maps_stride;
    const int64_t* map_at;
    real* const* operands;  // [operand] + r · width
    real* const* cuts;
    real* const* sums;  // [sum][r]
    real* const* backs;
    const real* d_out;
    int64_t d_out_stride;
    const real* const* d_after;
    real* const* d_before;
    real* const* d_vectors;  // by parameter
    real* d_x;
};

template <typename real> struct Whole {
    UNSPOOL_INLINE vec<real> load(const real* p) const { return unspool::load(p); }
    UNSPOOL_INLINE void store(real* p, vec<real> v) const { unspool::store(p, v); }
    UNSPOOL_INLINE vec<real> keep(vec<real> v) const { return v; }
    UNSPOOL_INLINE vec<real> most(vec<real> v) const { return v; }
};
template <typename real> struct Part {
    int count;
    UNSPOOL_INLINE vec<real> load(const real* p) const { return load_part(p, count); }
    UNSPOOL_INLINE void store(real* p, vec<real> v) const { store_part(p, v, count); }
    UNSPOOL_INLINE vec<real> keep(vec<real> v) const {
        for (int lane = count; lane < LANES<real>; ++lane) v[lane] = 0;
        return v;
    }
    UNSPOOL_INLINE vec<real> most(vec<real> v) const {
        for (int lane = count; lane < LANES<real>; ++lane) v[lane] = -INFINITY;
        return v;
    }
};
template <typename real> struct One {  // one number a row
    UNSPOOL_INLINE vec<real> load(const real* p) const { return broadcast(*p); }
    UNSPOOL_INLINE void store(real* p, vec<real> v) const { *p = v[0]; }
};

template <typename real> struct Two {  // two vectors at once
    UNSPOOL_INLINE Both<vec<real>> load(const real* p) const { return {unspool::load(p), unspool::load(p + LANES<real>)}; }
    UNSPOOL_INLINE void store(real* p, Both<vec<real>> v) const {
        unspool::store(p, v.a);
        unspool::store(p + LANES<real>, v.b);
    }
    UNSPOOL_INLINE void store(real* p, vec<real> v) const { store(p, Both<vec<real>>{v, v}); }
    UNSPOOL_INLINE vec<real> keep(Both<vec<real>> v) const { return v.a + v.b; }
    UNSPOOL_INLINE vec<real> keep(vec<real> v) const { return v + v; }
    UNSPOOL_INLINE vec<real> most(Both<vec<real>> v) const { return vmaximum<real>(v.a, v.b); }
    UNSPOOL_INLINE vec<real> most(vec<real> v) const { return v; }
};

template <typename real> UNSPOOL_INLINE real largest(vec<real> v) {
    vec<real> found = broadcast(v[0]);
    for (int lane = 1; lane < LANES<real>; ++lane) found = vmaximum<real>(found, broadcast(v[lane]));
    return found[0];
}
// Sums of a row's units from the first on, or from the last.
template <typename real> UNSPOOL_INLINE void accumulate(real* v, int64_t count, bool down) {
    if (down)
        for (int64_t j = count - 1; j > 0; --j) v[j - 1] += v[j];
    else
        for (int64_t j = 1; j < count; ++j) v[j] += v[j - 1];
}

template <typename real, typename Body> UNSPOOL_INLINE void loop(int64_t first, int64_t last, Body&& body) {
    int64_t j = first;
    for (; j + LANES<real> <= last; j += LANES<real>) body(j, Whole<real>{});
    if (j < last) body(j, Part<real>{int(last - j)});
}
// The same where units take long chains of operations: the processor works on two chains at a time.
template <typename real, typename Body> UNSPOOL_INLINE void loop_in_pairs(int64_t first, int64_t last, Body&& body) {
    int64_t j = first;
    for (; j + 2 * LANES<real> <= last; j += 2 * LANES<real>) body(j, Two<real>{});
    if (j < last) loop<real>(j, last, body);
}

}  // namespace unspool
