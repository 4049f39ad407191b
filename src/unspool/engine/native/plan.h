// One call of a kernel: what is asked for, where everything lies, and who does what.
//
// T steps, B rows. The rows of a batch are independent, so the rows are dealt into shares and each thread takes its share
// through all of time. Within a share rows are sorted by length, longest first: the rows alive at a step are the first
// few. Where there are fewer rows than would pay, the threads take the same rows together, each some of the units, and
// meet after every level. Where no map reads a state, units never meet: then threads take units of the same rows, too,
// and need not wait for each other.
#pragma once

#include <algorithm>
#include <memory>

#include "arena.h"
#include "call.h"
#include "choice.h"
#include "frame.h"
#include "parallel.h"
#include "product.h"
#include "wave.h"

// From how many multiplications on a call may be worth a second thread, and a step of it worth that threads meet.
#ifndef UNSPOOL_WORTH_A_THREAD
#define UNSPOOL_WORTH_A_THREAD (1 << 19)
#define UNSPOOL_WORTH_A_MEETING (1 << 14)
#endif
// From how many on several threads that need not meet are worth it for certain.
constexpr int64_t SURELY_WORTH_A_THREAD = 1 << 28;

namespace unspool {

struct Rows {  // a share: places in the batch, and lengths
    int count;
    int64_t *index, *lengths;

    // How many are alive at a time; `from` is where the search begins.
    int alive(int64_t t, int from) const {
        int found = from;
        while (found < count && lengths[found] > t) ++found;
        while (found > 0 && lengths[found - 1] <= t) --found;
        return found;
    }
};

template <typename Cell, typename real> struct Plan {
    Plan(const Call& asked, bool forward) : call(asked), T(asked.steps), B(asked.batch), sizes(asked.sizes) {
        arena().reset();
        void* const* table = call.tables;
        auto next = [&](bool there, int count) { return there ? (table += count) - count : nullptr; };
        void* const* arrays = next(true, int(call.arrays));
        start = next(call.given & START, Cell::STATES);
        if (forward) {
            final_states = next(true, Cell::STATES);
            trace = next(call.given & TRACE, Cell::NAMED);
        } else {
            d_final = next(true, Cell::STATES);
            d_arrays = next(true, int(call.arrays));
            d_start = next(call.given & START, Cell::STATES);
        }
        if (void* const* wave = next(call.given & WAVE, 2))
            progress = {static_cast<const std::atomic<int64_t>*>(wave[0]), static_cast<std::atomic<int64_t>*>(wave[1])};
        parameters = arena().take<const real*>(Cell::PARAMETERS + 1);
        for (int i = 0; i < Cell::PARAMETERS; ++i) {
            parameters[i] = at(arrays, call.places[i][0]);
            const real* more = at(arrays, call.places[i][1]);
            if (more) parameters[i] = sum_of(parameters[i], more, size(Cell::parameters[i].rows));
        }
        int64_t end = 0;
        for (int m = 0; m < Cell::MAPS; ++m) {
            map_at[m] = end;
            end += size(Cell::maps[m].width);
        }
        map_at[Cell::MAPS] = end;
        stride = round_up(end, 16) + 16;  // not a power of two: rows must not meet in one set of the cache
        end = 0;
        for (int s = 0; s < Cell::SLOTS; ++s) {
            slot_at[s] = end;
            end += size(Cell::slot_widths[s]);
        }
        after_at[0] = 0;
        for (int k = 1; k < Cell::STATES; ++k) {
            after_at[k] = end;
            end += size(Cell::state_widths[k]);
        }
        record = end;
        x_stride = sizes[0];
        for (int i = 0; i < Cell::EXTRAS; ++i) x_stride += size(Cell::extra_widths[i]);
        divide();
        deal();
    }

    struct Units {  // by size: the units of one thread
        int64_t first[Cell::SIZES], last[Cell::SIZES];
    };

    // Whether a recurrence is elementwise: maps read x alone, and nothing else joins a row's units.
    static constexpr bool elementwise() {
        bool found = Cell::UNITS_APART;
        for (int g = 0; g < Cell::GROUPS; ++g) found = found && Cell::groups[g].origin == FROM_X;
        return found;
    }
    // After a level: no thread goes on before all have written their units, if any of them reads others'. Where the threads
    // part, the one of part 0 takes all units from here, and the others hear that they leave.
    bool leaves_after_level(int part, int& parts, Units& units) {
        if constexpr (elementwise()) return false;
        if (!barrier.meet_or_part(part, parts)) return false;
        parts = 1;
        units = units_of(0, parts);
        return part > 0;
    }

    int64_t size(int width) const { return width < 0 ? 1 : sizes[width]; }
    static int width_of(const Group& g) {  // of its operand
        return g.origin == FROM_X ? 0 : g.origin == FROM_STATE ? Cell::state_widths[g.index] : Cell::operand_widths[g.index];
    }
    int64_t operand_size(const Group& g) const { return size(width_of(g)); }
    int64_t columns(int first, int count) const { return map_at[first + count] - map_at[first]; }
    int64_t columns(const Group& g) const { return columns(g.first, g.count); }
    const real* parameter(int p) const { return parameters[p]; }
    static real* at(void* const* arrays, const Place& place) {
        return place.array < 0 ? nullptr : static_cast<real*>(arrays[place.array]) + place.at;
    }
    real* gradient(int p) const { return at(d_arrays, call.places[p][0]); }
    // The matrix through which a group's operand reaches a map.
    int matrix(const Group& g, int m) const { return Cell::matrices[g.matrices + m - g.first]; }
    int64_t time_of(int64_t step, int64_t longest) const { return call.reverse ? longest - 1 - step : step; }
    template <typename T> static T** pointers(int count) { return arena().take<T*>(count + 1); }
    real** buffers(int count, const int* widths, int64_t rows) const {
        real** found = pointers<real>(count);
        for (int i = 0; i < count; ++i) found[i] = arena().take<real>(rows * size(widths[i]));
        return found;
    }

    // Panels never lie across two threads' units.
    Units units_of(int part, int parts) const {
        Units units;
        for (int s = 0; s < Cell::SIZES; ++s) {
            const int64_t panels = round_up(sizes[s], NR<real>) / NR<real>;
            units.first[s] = panels * part / parts * NR<real>;
            units.last[s] = std::min(sizes[s], panels * (part + 1) / parts * NR<real>);
        }
        return units;
    }

    // A frame with what stays the same over time.
    Frame<real> frame(const Rows& rows, const Units& units) const {
        Frame<real> f{};
        f.index = rows.index;
        f.sizes = sizes;
        f.first = units.first;
        f.last = units.last;
        f.parameters = parameters;
        f.maps_stride = stride;
        f.map_at = map_at;
        f.slot_at = slot_at;
        f.after_at = after_at;
        f.tape_stride = record;
        return f;
    }

    // Does a share of the work, or a part of every share's, in each thread.
    template <typename Body> void in_shares(Body&& body) {
        run_parallel(threads, [&](int thread, int count) {
            try {
                if (thread) arena().reset();
                if (together) body(0, thread, count);
                else
                    for (int share = thread; share < shares; share += count) body(share, 0, 1);
            } catch (...) {
                barrier.desert();
                throw;
            }
        });
    }

    // One thread's units of a state of row r, from one array of states (or zero) to another.
    void copy_state(int k, real* to, int64_t row, const void* from, int64_t from_row, const Units& units) const {
        const int width = Cell::state_widths[k];
        const int64_t w = size(width), first = units.first[width];
        const size_t bytes = size_t(units.last[width] - first) * sizeof(real);
        if (from) std::memcpy(to + row * w + first, static_cast<const real*>(from) + from_row * w + first, bytes);
        else std::memset(to + row * w + first, 0, bytes);
    }
    void take_states(real* const* to, int r, int64_t b, void* const* from, const Units& units) const {
        for (int k = 0; k < Cell::STATES; ++k) copy_state(k, to[k], r, from ? from[k] : nullptr, b, units);
    }
    void give_states(real* const* from, int r, int64_t b, void* const* to, const Units& units) const {
        for (int k = 0; to && k < Cell::STATES; ++k) copy_state(k, static_cast<real*>(to[k]), b, from[k], r, units);
    }
    // Rows without a step hand through what they were given.
    void pass_states(const Rows& rows, void* const* from, void* const* to, const Units& units) const {
        for (int r = 0; to && r < rows.count; ++r)
            for (int k = 0; k < Cell::STATES && rows.lengths[r] == 0; ++k)
                copy_state(k, static_cast<real*>(to[k]), rows.index[r], from ? from[k] : nullptr, rows.index[r], units);
    }
    void clear_padding(const Rows& rows, void* sequence, int64_t width) const {
        for (int r = 0; r < rows.count; ++r)
            for (int64_t t = rows.lengths[r]; t < T; ++t)
                std::memset(static_cast<real*>(sequence) + (t * B + rows.index[r]) * width, 0, size_t(width) * sizeof(real));
    }

    const Call& call;
    // tables, each null where there is none
    const real** parameters;              // each contiguous
    void* const* start = nullptr;         // per state (B, width); else zero
    void* const* final_states = nullptr;  // per state (B, width)
    void* const* trace = nullptr;         // per named value (T, B, width)
    void* const* d_final = nullptr;       // per state, each or null: zero
    void* const* d_arrays = nullptr;      // of what the parameters lie in
    void* const* d_start = nullptr;       // per state
    Progress progress;                    // in a wave; then there is one thread, and time goes forward
    const int64_t T, B;
    const int64_t* sizes;
    int64_t map_at[Cell::MAPS + 1];
    int64_t slot_at[Cell::SLOTS + 1];
    int64_t after_at[Cell::STATES + 1];
    int64_t stride, record, x_stride;
    int threads, shares;
    bool unpacked;  // so few rows that packing the matrices would not pay
    bool together;  // the threads take the same rows, each some of the units
    Rows* dealt;
    Barrier barrier;
    Choice choice;

   private:
    static const real* sum_of(const real* a, const real* b, int64_t count) {
        real* sum = arena().take<real>(count);
        for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
        return sum;
    }

    void divide() {
        threads = int(std::max<int64_t>(1, call.threads));
        unpacked = T * B <= 6 && !call.packed;
        int64_t work = 0;  // multiplications a step and row
        bool whole = Cell::UNITS_APART;
        for (int g = 0; g < Cell::GROUPS; ++g) work += operand_size(Cell::groups[g]) * columns(Cell::groups[g]);
        for (int m = 0; m < Cell::MAPS; ++m) whole = whole && size(Cell::maps[m].width) % NR<real> == 0;
        together = threads > 1 && whole && (elementwise() ? units_suffice() : B <= 2 && work >= UNSPOOL_WORTH_A_MEETING);
        if (!together) threads = call.given & UNSPLIT ? 1 : int(std::min<int64_t>(threads, B));
        if (unpacked || work * T * B < UNSPOOL_WORTH_A_THREAD) {
            threads = 1;
            together = false;
        }
        shares = together ? 1 : threads;  // the work is dealt alike, whoever does it
        if (threads == 1) return;
        if ((together || work * T * B < SURELY_WORTH_A_THREAD) && choice.begin(kind(), double(steps_of_rows())) == ONE) {
            threads = 1;
            together = false;
        }
        Barrier::Place* places = arena().take<Barrier::Place>(threads);
        std::uninitialized_value_construct_n(places, threads);
        barrier.begin(places);
    }

    // What calls have in common that take nearly as long per step and row.
    uint64_t kind() const {
        static const char pass = 0;  // of this cell, this way
        uint64_t found = hash(uint64_t(reinterpret_cast<uintptr_t>(&pass)), uint64_t(d_arrays != nullptr));
        for (int s = 0; s < Cell::SIZES; ++s) found = hash(found, uint64_t(sizes[s]));
        for (int64_t value : {B, int64_t(threads), int64_t(call.tape != nullptr), int64_t(call.lengths != nullptr), int64_t(call.d_x != nullptr)})
            found = hash(found, uint64_t(value));
        return hash(found, magnitude(T));
    }
    int64_t steps_of_rows() const {
        if (!call.lengths) return T * B;
        int64_t found = 1;
        for (int64_t b = 0; b < B; ++b) found += call.lengths[b];
        return found;
    }

    // Whether every thread would get units of each state, and the rows are few enough that it matters who takes how many.
    bool units_suffice() const {
        bool enough = B < 4 * threads;
        for (int k = 0; k < Cell::STATES; ++k) enough = enough && size(Cell::state_widths[k]) >= threads * NR<real>;
        return enough;
    }

    // Neighbours where all are equally long, else by length in the order 0 1 … n−1 n−1 … 1 0 0 1 …
    void deal() {
        dealt = arena().take<Rows>(shares);
        int64_t* places = arena().take<int64_t>(B);
        for (int64_t b = 0; b < B; ++b) places[b] = b;
        if (call.lengths)
            std::stable_sort(places, places + B, [&](int64_t a, int64_t b) { return call.lengths[a] > call.lengths[b]; });
        for (int share = 0; share < shares; ++share) {
            Rows& rows = dealt[share];
            rows = {0, arena().take<int64_t>(B / shares + 2), arena().take<int64_t>(B / shares + 2)};
            auto take = [&](int64_t b) {
                rows.index[rows.count] = b;
                rows.lengths[rows.count++] = call.lengths ? call.lengths[b] : T;
            };
            if (!call.lengths)
                for (int64_t i = B * share / shares; i < B * (share + 1) / shares; ++i) take(i);
            else
                for (int64_t i = 0; i < B; ++i) {
                    const int64_t turn = i % (2 * shares);
                    if ((turn < shares ? turn : 2 * shares - 1 - turn) == share) take(places[i]);
                }
        }
    }
};

}  // namespace unspool
