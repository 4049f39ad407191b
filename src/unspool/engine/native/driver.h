// A cell over time: rows to threads, steps to slabs, products between the levels of the emitted loops.
//
// T steps, B rows. The rows of a batch are independent, so each thread takes some of them through all of time. Within a
// thread rows are sorted by length, longest first: the rows alive at a step are the first few. Products with x leave the
// time loop in slabs of steps that fit the cache; so do, backwards, the sums of outer products that weight gradients are.
#pragma once

#include <algorithm>
#include <vector>

#include "arena.h"
#include "frame.h"
#include "parallel.h"
#include "product.h"

namespace unspool {

extern "C" struct Call {
    int64_t steps, batch, threads, reverse;
    const int64_t* sizes;
    const int64_t* lengths;          // or null: all are `steps`
    const void* x;                   // (T, B, input)
    const void* const* parameters;   // each contiguous
    const void* const* start;        // per state (B, width), or null: zero
    void* out;                       // (T, B, width of the first state)
    void* const* final_states;       // per state (B, width)
    void* tape;                      // (T, B, record) or null: keep nothing
    void* const* trace;              // per named value (T, B, width), or null
    const void* d_out;               // or null: zero
    const void* const* d_final;      // per state, each or null: zero
    void* d_x;                       // or null: not wanted
    void* const* d_parameters;
    void* const* d_start;            // per state, or null: not wanted
};

template <typename Cell, typename real> class Run {
   public:
    explicit Run(const Call& call) : call_(call), T(call.steps), B(call.batch), sizes_(call.sizes) {
        int64_t at = 0;
        for (int m = 0; m < Cell::MAPS; ++m) {
            map_at_[m] = at;
            at += size(Cell::maps[m].width);
        }
        map_at_[Cell::MAPS] = at;
        stride_ = round_up(at, 16) + 16;  // not a power of two: rows must not meet in one set of the cache
        record_ = record(sizes_, slot_at_, after_at_);
        threads_ = int(std::max<int64_t>(1, std::min(call.threads, B)));
        unpacked_ = T * B <= 6;
        if (unpacked_) threads_ = 1;
        deal();
    }

    static int64_t record(const int64_t* sizes, int64_t* slot_at, int64_t* after_at) {
        int64_t at = 0;
        for (int s = 0; s < Cell::SLOTS; ++s) {
            slot_at[s] = at;
            at += Cell::slot_widths[s] < 0 ? 1 : sizes[Cell::slot_widths[s]];
        }
        after_at[0] = 0;
        for (int k = 1; k < Cell::STATES; ++k) {
            after_at[k] = at;
            at += sizes[Cell::state_widths[k]];
        }
        return at;
    }

    void forward() {
        arena().reset();
        expect_large(call_.tape, T * B * record_ * int64_t(sizeof(real)));
        expect_large(call_.out, T * B * size(Cell::state_widths[0]) * int64_t(sizeof(real)));
        const real** packed = arena().take<const real*>(Cell::GROUPS + 1);
        pack(packed, true);
        run_parallel(threads_, [&](int thread) {
            if (thread) arena().reset();
            forward_rows(thread, packed);
        });
    }

    void backward() {
        arena().reset();
        const real** packed = arena().take<const real*>(Cell::GROUPS + 1);
        pack(packed, false);
        Sums* sums = arena().take<Sums>(threads_);  // with what they point to, in memory that outlives the threads
        for (int thread = 0; thread < threads_; ++thread) {
            for (int g = 0; g < Cell::GROUPS; ++g)
                sums[thread].outer[g] = arena().take<real>(operand_size(Cell::groups[g]) * columns(Cell::groups[g]));
            sums[thread].maps = arena().take<real>(stride_);
            for (int p = 0; p < Cell::PARAMETERS; ++p)
                sums[thread].vectors[p] = Cell::parameters[p].columns < 0 ? arena().take<real>(size(Cell::parameters[p].rows)) : nullptr;
        }
        run_parallel(threads_, [&](int thread) {
            if (thread) arena().reset();
            backward_rows(thread, packed, sums[thread]);
        });
        run_parallel(threads_, [&](int thread) { gather(thread, sums); });
    }

   private:
    struct Sums {  // one thread's share of the gradients of parameters
        real* outer[Cell::GROUPS + 1];
        real* maps;  // Σ d_maps, for the biases
        real* vectors[Cell::PARAMETERS + 1];
    };
    struct Rows {
        std::vector<int64_t> index, lengths;
    };

    int64_t size(int width) const { return width < 0 ? 1 : sizes_[width]; }
    int64_t operand_size(const Group& g) const {
        return g.origin == FROM_X       ? sizes_[0]
               : g.origin == FROM_STATE ? size(Cell::state_widths[g.index])
                                        : size(Cell::operand_widths[g.index]);
    }
    int64_t columns(const Group& g) const { return map_at_[g.first + g.count] - map_at_[g.first]; }
    const real* parameter(int p) const { return static_cast<const real*>(call_.parameters[p]); }

    // Rows to threads: neighbours where all are equally long, else by length in the order 0 1 … n−1 n−1 … 1 0 0 1 …
    void deal() {
        rows_.resize(size_t(threads_));
        if (!call_.lengths) {
            for (int k = 0; k < threads_; ++k)
                for (int64_t b = B * k / threads_; b < B * (k + 1) / threads_; ++b) {
                    rows_[k].index.push_back(b);
                    rows_[k].lengths.push_back(T);
                }
            return;
        }
        std::vector<int64_t> order(static_cast<size_t>(B));
        for (int64_t b = 0; b < B; ++b) order[b] = b;
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return call_.lengths[a] > call_.lengths[b]; });
        for (int64_t i = 0; i < B; ++i) {
            int64_t turn = i % (2 * threads_);
            Rows& rows = rows_[turn < threads_ ? turn : 2 * threads_ - 1 - turn];
            rows.index.push_back(order[i]);
            rows.lengths.push_back(call_.lengths[order[i]]);
        }
    }

    // Every group's matrices side by side, as the forward product or the backward product reads them.
    void pack(const real** packed, bool forward) {
        if (unpacked_) return;
        int64_t work = 0;
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            int64_t in = operand_size(group), out = columns(group);
            packed[g] = forward ? arena().take<real>(packed_size<real>(in, out)) : arena().take<real>(packed_size<real>(out, in));
            work += in * out;
        }
        int workers = work > 1 << 15 ? threads_ : 1;
        run_parallel(workers, [&](int worker) {
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                if (!forward && group.origin == FROM_X && !call_.d_x) continue;
                int64_t in = operand_size(group), out = columns(group);
                int64_t panels = round_up(forward ? out : in, NR<real>) / NR<real>;
                int64_t first = panels * worker / workers, last = panels * (worker + 1) / workers;
                real* to = const_cast<real*>(packed[g]);
                if (last * NR<real> > (forward ? out : in))  // the last panel's overhang
                    std::memset(to + (last - 1) * NR<real> * (forward ? in : out), 0, size_t(NR<real> * (forward ? in : out)) * sizeof(real));
                for (int i = 0; i < group.count; ++i) {
                    int64_t at = map_at_[group.first + i] - map_at_[group.first], width = size(Cell::maps[group.first + i].width);
                    const real* source = parameter(Cell::matrices[group.matrices + i]);
                    if (forward) pack_transposed(to, in, at, source, width, first, last);
                    else pack_straight(to, out, at, source, width, in, first, last);
                }
            }
        });
    }

    // maps[r] (+)= operand[r] · matrices, for the maps of a group.
    void map_product(int g, int rows, const real* const* from, const real* const* packed, real* maps, bool add) const {
        const Group& group = Cell::groups[g];
        const int64_t in = operand_size(group);
        if (!unpacked_) return product(rows, from, in, packed[g], columns(group), maps + map_at_[group.first], stride_, add);
        for (int r = 0; r < rows; ++r)
            for (int i = 0; i < group.count; ++i) {
                const int m = group.first + i;
                const real* weights = parameter(Cell::matrices[group.matrices + i]);
                product_unpacked(from[r], in, weights, size(Cell::maps[m].width), maps + r * stride_ + map_at_[m], add);
            }
    }

    // to[r] (+)= gradients of a group's maps · matrices; `from` points to the gradient of the group's first map.
    void operand_product(int g, int rows, const real* const* from, const real* const* packed, real* to, bool add) const {
        const Group& group = Cell::groups[g];
        const int64_t in = operand_size(group);
        if (!unpacked_) return product(rows, from, columns(group), packed[g], in, to, in, add);
        if (!add) std::memset(to, 0, size_t(rows * in) * sizeof(real));
        for (int r = 0; r < rows; ++r)
            for (int i = 0; i < group.count; ++i) {
                const int m = group.first + i;
                const real* weights = parameter(Cell::matrices[group.matrices + i]);
                const real* gradient = from[r] + map_at_[m] - map_at_[group.first];
                product_back_unpacked(gradient, size(Cell::maps[m].width), weights, in, to + r * in);
            }
    }

    template <typename T> static T** pointers(int count) { return arena().take<T*>(count + 1); }

    void level_forward(int level, const Frame<real>& f) const {
#if UNSPOOL_TRACE
        Cell::template forward<false, true>(level, f);
#else
        call_.tape ? Cell::template forward<true, false>(level, f) : Cell::template forward<false, false>(level, f);
#endif
    }

    UNSPOOL_APART void forward_rows(int thread, const real* const* packed) {
        const Rows& mine = rows_[thread];
        const int n = int(mine.index.size());
        Frame<real> f{};
        f.index = mine.index.data();
        f.sizes = sizes_;
        f.parameters = reinterpret_cast<const real* const*>(call_.parameters);
        f.maps_stride = stride_;
        f.map_at = map_at_;
        f.slot_at = slot_at_;
        f.after_at = after_at_;
        f.tape_stride = record_;
        real** now = pointers<real>(Cell::STATES);
        real** next = pointers<real>(Cell::STATES);
        const real*** before = arena().take<const real**>(Cell::STATES + 1);
        for (int k = 0; k < Cell::STATES; ++k) {
            now[k] = arena().take<real>(n * size(Cell::state_widths[k]));
            next[k] = arena().take<real>(n * size(Cell::state_widths[k]));
            before[k] = arena().take<const real*>(n);
        }
        real** operands = pointers<real>(Cell::OPERANDS);
        for (int i = 0; i < Cell::OPERANDS; ++i) operands[i] = arena().take<real>(n * size(Cell::operand_widths[i]));
        real** cuts = pointers<real>(Cell::FORWARD_CUTS);
        for (int i = 0; i < Cell::FORWARD_CUTS; ++i) cuts[i] = arena().take<real>(n * size(Cell::forward_cut_widths[i]));
        real** sums = pointers<real>(Cell::FORWARD_SUMS);
        for (int i = 0; i < Cell::FORWARD_SUMS; ++i) sums[i] = arena().take<real>(n);
        real** trace = pointers<real>(Cell::NAMED);
        f.before = before;
        f.operands = operands;
        f.cuts = cuts;
        f.sums = sums;
        f.trace = trace;

        for (int r = 0; r < n; ++r)
            if (mine.lengths[r] == 0) copy_states(f.index[r], call_.start, call_.final_states);
        const int64_t longest = n ? mine.lengths[0] : 0;
        // about half of the second-level cache
        const int64_t room = std::max<int64_t>(n, std::min<int64_t>(n * longest, (192 << 10) / int64_t(sizeof(real)) / stride_));
        real* slab = arena().take<real>(room * stride_);
        const real** x_rows = arena().take<const real*>(room);
        const real** from = arena().take<const real*>(n);

        int alive = 0;
        for (int64_t done = 0; done < longest;) {
            // a slab: as many steps as there is room for
            int64_t rows = 0, end = done;
            int at_end = alive;
            for (; end < longest; ++end) {
                at_end = count_alive(mine, time_of(end, longest), at_end);
                if (rows + at_end > room) break;
                const real* x = static_cast<const real*>(call_.x) + time_of(end, longest) * B * sizes_[0];
                for (int r = 0; r < at_end; ++r) x_rows[rows + r] = x + mine.index[r] * sizes_[0];
                rows += at_end;
            }
            start_maps(slab, rows);
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                if (group.origin == FROM_X) map_product(g, int(rows), x_rows, packed, slab, false);
            }
            f.maps = slab;
            for (; done < end; ++done) {
                const int64_t t = time_of(done, longest);
                const int living = count_alive(mine, t, alive);
                for (int r = alive; r < living; ++r) take_states(now, r, mine.index[r], call_.start);  // rows that begin
                alive = living;
                for (int k = 0; k < Cell::STATES; ++k)
                    for (int r = 0; r < alive; ++r) before[k][r] = now[k] + r * size(Cell::state_widths[k]);
                f.rows = alive;
                f.x = static_cast<const real*>(call_.x) + t * B * sizes_[0];
                f.out = static_cast<real*>(call_.out) + t * B * size(Cell::state_widths[0]);
                if (call_.tape) f.tape = static_cast<real*>(call_.tape) + t * B * record_;
                if (call_.trace)
                    for (int i = 0; i < Cell::NAMED; ++i)
                        trace[i] = static_cast<real*>(call_.trace[i]) + t * B * size(Cell::named_widths[i]);
                f.after = next;
                for (int level = 0; level < Cell::FORWARD_LEVELS; ++level) {
                    for (int g = 0; g < Cell::GROUPS; ++g) {
                        const Group& group = Cell::groups[g];
                        if (group.origin == FROM_X || group.level != level) continue;
                        const int64_t in = operand_size(group);
                        for (int r = 0; r < alive; ++r)
                            from[r] = group.origin == FROM_STATE ? before[group.index][r] : operands[group.index] + r * in;
                        map_product(g, alive, from, packed, f.maps, true);
                    }
                    level_forward(level, f);
                }
                f.maps += alive * stride_;
                std::swap(now, next);
                const int staying = done + 1 < longest ? std::min(alive, count_alive(mine, time_of(done + 1, longest), 0)) : 0;
                for (int r = staying; r < alive; ++r) give_states(now, r, mine.index[r], call_.final_states);  // rows that end
                if (staying < alive) alive = staying;
            }
        }
        clear_padding(mine, call_.out, size(Cell::state_widths[0]));
        if (call_.trace)
            for (int i = 0; i < Cell::NAMED; ++i) clear_padding(mine, call_.trace[i], size(Cell::named_widths[i]));
    }

    UNSPOOL_APART void backward_rows(int thread, const real* const* packed, Sums& sums) {
        const Rows& mine = rows_[thread];
        const int n = int(mine.index.size());
        for (int g = 0; g < Cell::GROUPS; ++g)
            std::memset(sums.outer[g], 0, size_t(operand_size(Cell::groups[g]) * columns(Cell::groups[g])) * sizeof(real));
        std::memset(sums.maps, 0, size_t(stride_) * sizeof(real));
        for (int p = 0; p < Cell::PARAMETERS; ++p)
            if (sums.vectors[p]) std::memset(sums.vectors[p], 0, size_t(size(Cell::parameters[p].rows)) * sizeof(real));

        Frame<real> f{};
        f.index = mine.index.data();
        f.sizes = sizes_;
        f.parameters = reinterpret_cast<const real* const*>(call_.parameters);
        f.maps_stride = stride_;
        f.map_at = map_at_;
        f.slot_at = slot_at_;
        f.after_at = after_at_;
        f.tape_stride = record_;
        f.d_vectors = sums.vectors;
        real** now = pointers<real>(Cell::STATES);
        real** next = pointers<real>(Cell::STATES);
        const real*** before = arena().take<const real**>(Cell::STATES + 1);
        for (int k = 0; k < Cell::STATES; ++k) {
            now[k] = arena().take<real>(n * size(Cell::state_widths[k]));
            next[k] = arena().take<real>(n * size(Cell::state_widths[k]));
            before[k] = arena().take<const real*>(n);
        }
        real** operands = pointers<real>(Cell::OPERANDS);
        // zeros: what only maps without a gradient read is not computed again
        for (int i = 0; i < Cell::OPERANDS; ++i) operands[i] = arena().zeros<real>(n * size(Cell::operand_widths[i]));
        real** cuts = pointers<real>(Cell::BACKWARD_CUTS);
        for (int i = 0; i < Cell::BACKWARD_CUTS; ++i) cuts[i] = arena().take<real>(n * size(Cell::backward_cut_widths[i]));
        real** totals = pointers<real>(Cell::BACKWARD_SUMS);
        for (int i = 0; i < Cell::BACKWARD_SUMS; ++i) totals[i] = arena().take<real>(n);
        real** backs = pointers<real>(Cell::BACKS);
        for (int i = 0; i < Cell::BACKS; ++i) backs[i] = arena().take<real>(n * size(Cell::operand_widths[Cell::backs[i].operand]));
        const int64_t width = size(Cell::state_widths[0]);
        const real* no_gradient = call_.d_out ? nullptr : arena().zeros<real>(width);
        int64_t widest = 0;
        for (int k = 0; k < Cell::STATES; ++k) widest = std::max(widest, size(Cell::state_widths[k]));
        const real* nothing = call_.start ? nullptr : arena().zeros<real>(widest);
        f.before = before;
        f.operands = operands;
        f.cuts = cuts;
        f.sums = totals;
        f.backs = backs;

        for (int r = 0; r < n; ++r)
            if (mine.lengths[r] == 0) copy_states(f.index[r], call_.d_final, call_.d_start);
        const int64_t longest = n ? mine.lengths[0] : 0;
        // enough rows that adding to the gradients' sums pays, not so many that they leave the cache
        const int64_t room = std::max<int64_t>(n, std::min<int64_t>(n * longest, std::max<int64_t>(96, std::min<int64_t>(256, (512 << 10) / int64_t(sizeof(real)) / stride_))));
        real* slab = arena().zeros<real>(room * stride_);
        real** packed_operands = pointers<real>(Cell::GROUPS);
        for (int g = 0; g < Cell::GROUPS; ++g) {
            packed_operands[g] = nullptr;
            for (int other = 0; other < g; ++other)
                if (Cell::groups[other].origin == Cell::groups[g].origin && Cell::groups[other].index == Cell::groups[g].index)
                    packed_operands[g] = packed_operands[other];
            if (!packed_operands[g]) packed_operands[g] = arena().take<real>(packed_rows_size<real>(room, operand_size(Cell::groups[g])));
        }
        real* d_x_slab = call_.d_x ? arena().take<real>(room * sizes_[0]) : nullptr;
        int64_t* d_x_at = arena().take<int64_t>(room);
        const real** from = arena().take<const real*>(room);

        int alive = 0;
        int64_t filled = 0;
        for (int64_t undone = longest; undone-- > 0;) {
            const int64_t t = time_of(undone, longest);
            const int living = count_alive(mine, t, 0);
            for (int r = alive; r < living; ++r) take_states(now, r, mine.index[r], call_.d_final);
            alive = living;
            if (filled + alive > room) {
                flush(filled, room, slab, packed, packed_operands, d_x_slab, d_x_at, from, sums);
                filled = 0;
            }
            for (int k = 0; k < Cell::STATES; ++k) {
                const int64_t w = size(Cell::state_widths[k]);
                for (int r = 0; r < alive; ++r) {
                    const int64_t b = mine.index[r];
                    const bool first = call_.reverse ? t == mine.lengths[r] - 1 : t == 0;
                    const int64_t earlier = call_.reverse ? t + 1 : t - 1;
                    before[k][r] = first    ? (call_.start ? static_cast<const real*>(call_.start[k]) + b * w : nothing)
                                   : k == 0 ? static_cast<const real*>(call_.out) + (earlier * B + b) * w
                                            : static_cast<const real*>(call_.tape) + (earlier * B + b) * record_ + after_at_[k];
                }
                if (!Cell::D_BEFORE[k]) std::memset(next[k], 0, size_t(alive * w) * sizeof(real));
            }
            f.rows = alive;
            f.x = static_cast<const real*>(call_.x) + t * B * sizes_[0];
            f.out = static_cast<real*>(call_.out) + t * B * width;
            f.tape = static_cast<real*>(call_.tape) + t * B * record_;
            f.d_out = call_.d_out ? static_cast<const real*>(call_.d_out) + t * B * width : no_gradient;
            f.d_out_stride = call_.d_out ? width : 0;
            f.d_x = call_.d_x ? static_cast<real*>(call_.d_x) + t * B * sizes_[0] : nullptr;
            f.d_maps = slab + filled * stride_;
            f.d_after = now;
            f.d_before = next;
            for (int level = 0; level < Cell::BACKWARD_LEVELS; ++level) {
                for (int i = 0; i < Cell::BACKS; ++i)
                    if (Cell::backs[i].level == level) back_product(FROM_VALUE, Cell::backs[i].operand, f, packed, from, backs[i], false);
                Cell::template backward<real>(level, f);
            }
            for (int k = 0; k < Cell::STATES; ++k) back_product(FROM_STATE, k, f, packed, from, next[k], true);
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                bool again = false;
                for (int other = 0; other < g; ++other) again = again || packed_operands[other] == packed_operands[g];
                if (again) continue;
                const int64_t in = operand_size(group);
                for (int r = 0; r < alive; ++r) {
                    const real* row = group.origin == FROM_X       ? f.x + mine.index[r] * in
                                      : group.origin == FROM_STATE ? before[group.index][r]
                                                                   : operands[group.index] + r * in;
                    pack_row(packed_operands[g], room, filled + r, row, in);
                }
            }
            for (int r = 0; r < alive; ++r) d_x_at[filled + r] = (t * B + mine.index[r]) * sizes_[0];
            filled += alive;
            std::swap(now, next);
            const int staying = undone > 0 ? std::min(alive, count_alive(mine, time_of(undone - 1, longest), 0)) : 0;
            for (int r = staying; r < alive; ++r) give_states(now, r, mine.index[r], call_.d_start);
            if (staying < alive) alive = staying;
        }
        flush(filled, room, slab, packed, packed_operands, d_x_slab, d_x_at, from, sums);
        if (call_.d_x) clear_padding(mine, call_.d_x, sizes_[0]);
    }

    // to[r] (+)= Σ d_maps · matrices over the groups that read this operand.
    void back_product(Origin origin, int index, const Frame<real>& f, const real* const* packed, const real** from, real* to, bool add) {
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            if (group.origin != origin || group.index != index) continue;
            for (int r = 0; r < f.rows; ++r) from[r] = f.d_maps + r * stride_ + map_at_[group.first];
            operand_product(g, f.rows, from, packed, to, add);
            add = true;
        }
    }

    // The slab's share of the gradients: outer products, column sums, and the gradient of x.
    void flush(
        int64_t filled, int64_t room, const real* slab, const real* const* packed, real* const* packed_operands, real* d_x_slab,
        const int64_t* d_x_at, const real** from, Sums& sums) {
        if (!filled) return;
        bool add = false;
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            const int64_t out = columns(group), in = operand_size(group);
            add_outer(filled, room, packed_operands[g], in, slab + map_at_[group.first], stride_, out, sums.outer[g], out);
            if (group.origin == FROM_X && call_.d_x) {
                for (int64_t i = 0; i < filled; ++i) from[i] = slab + i * stride_ + map_at_[group.first];
                operand_product(g, int(filled), from, packed, d_x_slab, add);
                add = true;
            }
        }
        for (int64_t i = 0; i < filled; ++i)
            loop<real>(map_at_[Cell::MAPS], [&](int64_t j, auto lanes) {
                lanes.store(sums.maps + j, lanes.load(sums.maps + j) + lanes.load(slab + i * stride_ + j));
            });
        if (!call_.d_x) return;
        const int64_t in = sizes_[0];
        for (int64_t i = 0; i < filled; ++i) {
            real* to = static_cast<real*>(call_.d_x) + d_x_at[i];
            loop<real>(in, [&](int64_t j, auto lanes) {
                vec<real> v = add ? lanes.load(d_x_slab + i * in + j) : vec<real>{};
                if (Cell::X_UNIT_BY_UNIT) v += lanes.load(to + j);
                lanes.store(to + j, v);
            });
        }
    }

    // The threads' shares added up in a fixed order and laid out as the parameters are.
    void gather(int thread, const Sums* sums) const {
        int turn = 0;
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            const int64_t in = operand_size(group), out = columns(group);
            for (int i = 0; i < group.count; ++i) {
                const int64_t at = map_at_[group.first + i] - map_at_[group.first], rows = size(Cell::maps[group.first + i].width);
                real* to = static_cast<real*>(call_.d_parameters[Cell::matrices[group.matrices + i]]);
                constexpr int64_t BLOCK = 16;
                for (int64_t n = 0; n < rows; n += BLOCK) {
                    if (turn++ % threads_ != thread) continue;
                    const int64_t m = std::min(BLOCK, rows - n);
                    for (int64_t k0 = 0; k0 < in; k0 += BLOCK)
                        for (int64_t row = n; row < n + m; ++row)
                            for (int64_t k = k0; k < std::min(k0 + BLOCK, in); ++k) {
                                real total = 0;
                                for (int s = 0; s < threads_; ++s) total += sums[s].outer[g][k * out + at + row];
                                to[row * in + k] = total;
                            }
                }
            }
        }
        if (thread) return;
        for (int p = 0; p < Cell::PARAMETERS; ++p) {
            if (Cell::parameters[p].columns >= 0) {
                bool used = false;
                for (int i = 0; i < Cell::MATRICES; ++i) used = used || Cell::matrices[i] == p;
                if (!used)
                    std::memset(call_.d_parameters[p], 0, size_t(size(Cell::parameters[p].rows) * size(Cell::parameters[p].columns)) * sizeof(real));
                continue;
            }
            real* to = static_cast<real*>(call_.d_parameters[p]);
            const real* column = nullptr;
            for (int64_t j = 0; j < size(Cell::parameters[p].rows); ++j) {
                real total = 0;
                for (int s = 0; s < threads_; ++s) {
                    for (int m = 0; m < Cell::MAPS; ++m)
                        if (Cell::maps[m].bias == p) total += sums[s].maps[map_at_[m] + j];
                    column = sums[s].vectors[p];
                    total += column[j];
                }
                to[j] = total;
            }
        }
    }

    int64_t time_of(int64_t step, int64_t longest) const { return call_.reverse ? longest - 1 - step : step; }

    // How many of the rows are alive at a time; `from` is where the search begins.
    static int count_alive(const Rows& rows, int64_t t, int from) {
        int alive = from;
        while (alive < int(rows.lengths.size()) && rows.lengths[alive] > t) ++alive;
        while (alive > 0 && rows.lengths[alive - 1] <= t) --alive;
        return alive;
    }

    // Maps that do not read x begin at zero.
    void start_maps(real* slab, int64_t rows) const {
        for (int m = 0; m < Cell::MAPS; ++m) {
            bool reads_x = false;
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                reads_x = reads_x || (group.origin == FROM_X && group.first <= m && m < group.first + group.count);
            }
            if (!reads_x)
                for (int64_t i = 0; i < rows; ++i)
                    std::memset(slab + i * stride_ + map_at_[m], 0, size_t(map_at_[m + 1] - map_at_[m]) * sizeof(real));
        }
    }

    void take_states(real* const* to, int r, int64_t b, const void* const* from) const {
        for (int k = 0; k < Cell::STATES; ++k) {
            const int64_t w = size(Cell::state_widths[k]);
            if (from && from[k]) std::memcpy(to[k] + r * w, static_cast<const real*>(from[k]) + b * w, size_t(w) * sizeof(real));
            else std::memset(to[k] + r * w, 0, size_t(w) * sizeof(real));
        }
    }
    void give_states(real* const* from, int r, int64_t b, void* const* to) const {
        if (!to) return;
        for (int k = 0; k < Cell::STATES; ++k) {
            const int64_t w = size(Cell::state_widths[k]);
            std::memcpy(static_cast<real*>(to[k]) + b * w, from[k] + r * w, size_t(w) * sizeof(real));
        }
    }
    void copy_states(int64_t b, const void* const* from, void* const* to) const {
        if (!to) return;
        for (int k = 0; k < Cell::STATES; ++k) {
            const int64_t w = size(Cell::state_widths[k]);
            real* at = static_cast<real*>(to[k]) + b * w;
            if (from && from[k]) std::memcpy(at, static_cast<const real*>(from[k]) + b * w, size_t(w) * sizeof(real));
            else std::memset(at, 0, size_t(w) * sizeof(real));
        }
    }
    void clear_padding(const Rows& rows, void* sequence, int64_t width) const {
        for (size_t r = 0; r < rows.index.size(); ++r)
            for (int64_t t = rows.lengths[r]; t < T; ++t)
                std::memset(static_cast<real*>(sequence) + (t * B + rows.index[r]) * width, 0, size_t(width) * sizeof(real));
    }

    const Call& call_;
    const int64_t T, B;
    const int64_t* sizes_;
    int64_t map_at_[Cell::MAPS + 1];
    int64_t slot_at_[Cell::SLOTS + 1];
    int64_t after_at_[Cell::STATES + 1];
    int64_t stride_, record_;
    int threads_;
    bool unpacked_;  // so few rows that packing the matrices would not pay
    std::vector<Rows> rows_;
};

// A call returns 0, or 1 if there was not enough memory.
template <typename Cell, typename real> int run(const Call* call, bool forward) noexcept {
    try {
        Run<Cell, real> work(*call);
#if UNSPOOL_TRACE
        (void)forward;
        work.forward();
#else
        forward ? work.forward() : work.backward();
#endif
        return 0;
    } catch (...) {
        return 1;
    }
}

}  // namespace unspool

// A library is for one type of number, UNSPOOL_REAL, and either for training and inference or, with UNSPOOL_TRACE, for
// traces: each is built when it is first needed. Only these functions are seen from outside, since the libraries of
// several cells live in one process and must not share anything.
#define UNSPOOL_SEEN __attribute__((visibility("default")))
#if UNSPOOL_TRACE
#define UNSPOOL_EXPORT(Cell)  \
    extern "C" UNSPOOL_SEEN int unspool_forward(const unspool::Call* call) { return unspool::run<Cell, UNSPOOL_REAL>(call, true); }
#else
#define UNSPOOL_EXPORT(Cell)                                                                                                       \
    extern "C" UNSPOOL_SEEN int unspool_forward(const unspool::Call* call) { return unspool::run<Cell, UNSPOOL_REAL>(call, true); } \
    extern "C" UNSPOOL_SEEN int unspool_backward(const unspool::Call* call) { return unspool::run<Cell, UNSPOOL_REAL>(call, false); }
#endif
