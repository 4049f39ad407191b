// The way forward: level by level, first the products that the level needs, then its loop over the units.
//
// A map is the sum of its products with several operands, formed in one go. Only where there are few rows, and a product
// is as slow as the cache hands out the matrix, or where a recurrence is elementwise, do products with x leave the time
// loop: in slabs of steps, many rows each.
//
// Matrices that were packed before the call are for playing: then products with x always leave the loop, so that every sum
// has the same order, and the result the same bits, however time is cut into calls and rows into batches.
#pragma once

#include "plan.h"

namespace unspool {

// The matrices of a cell in one piece of memory: of every block and operand the scales, if they are whole numbers, and the
// panels.
template <typename Cell, typename real> class Packing {
   public:
    Packing(const Plan<Cell, real>& plan, bool whole) : p(plan), whole_(whole) {
        int64_t end = 0;
        for (int b = 0; b < Cell::BLOCKS; ++b)
            for (int i = 0; i < Cell::blocks[b].groups; ++i) {
                const int64_t out = columns(b), panels = packed_size<real>(depth(reader(b, i)), out);
                const int at = Cell::blocks[b].from + i;
                scales_at_[at] = end;
                if (whole) end += round_up(out, NR<real>) * int64_t(sizeof(real));
                panels_at_[at] = end;
                end = round_up(end + panels * int64_t(whole ? sizeof(int8_t) : sizeof(real)), 64);
            }
        bytes = end;
    }

    // The rows of the panels that an operand meets.
    int64_t depth(const Group& group) const { return whole_ ? round_up(p.operand_size(group), 4) : p.operand_size(group); }
    static const Group& reader(int b, int i) { return Cell::groups[Cell::readers[Cell::blocks[b].from + i]]; }
    int64_t columns(int b) const { return p.columns(Cell::blocks[b].first, Cell::blocks[b].count); }
    real* scales(void* memory, int at) const { return reinterpret_cast<real*>(static_cast<char*>(memory) + scales_at_[at]); }
    template <typename stored> stored* panels(void* memory, int at) const {
        return reinterpret_cast<stored*>(static_cast<char*>(memory) + panels_at_[at]);
    }

    void fill(void* memory) const {
        if constexpr (sizeof(real) == 4)
            if (whole_) return fill_int8(memory);
        int64_t work = 0;
        for (int b = 0; b < Cell::BLOCKS; ++b)
            for (int i = 0; i < Cell::blocks[b].groups; ++i) work += p.operand_size(reader(b, i)) * columns(b);
        run_parallel(work > 1 << 16 ? p.threads : 1, [&](int worker, int workers) {
            for (int b = 0; b < Cell::BLOCKS; ++b)
                for (int i = 0; i < Cell::blocks[b].groups; ++i) {
                    const Block& block = Cell::blocks[b];
                    const Group& group = reader(b, i);
                    const int64_t in = p.operand_size(group), out = columns(b), count = round_up(out, NR<real>) / NR<real>;
                    const int64_t first = count * worker / workers, last = count * (worker + 1) / workers;
                    real* to = panels<real>(memory, block.from + i);
                    if (last > first && last * NR<real> > out)  // the last panel's overhang
                        std::memset(to + (last - 1) * NR<real> * in, 0, size_t(NR<real> * in) * sizeof(real));
                    for (int m = block.first; m < block.first + block.count; ++m) {
                        const int64_t at = p.map_at[m] - p.map_at[block.first];
                        pack_transposed(to, in, at, p.parameter(p.matrix(group, m)), p.size(Cell::maps[m].width), first, last);
                    }
                }
        });
    }

    int64_t bytes;

   private:
    void fill_int8(void* memory) const {
        std::memset(memory, 0, size_t(bytes));
        for (int b = 0; b < Cell::BLOCKS; ++b)
            for (int i = 0; i < Cell::blocks[b].groups; ++i) {
                const Block& block = Cell::blocks[b];
                const Group& group = reader(b, i);
                const int at = block.from + i;
                for (int m = block.first; m < block.first + block.count; ++m)
                    pack_int8(
                        panels<int8_t>(memory, at), scales(memory, at), depth(group), p.operand_size(group),
                        p.map_at[m] - p.map_at[block.first], p.parameter(p.matrix(group, m)), p.size(Cell::maps[m].width));
            }
    }

    const Plan<Cell, real>& p;
    const bool whole_;
    int64_t scales_at_[Cell::READERS + 1], panels_at_[Cell::READERS + 1];
};

// Packs a cell's matrices into `packed`; where that is null, says in `out` how many bytes it takes.
template <typename Cell, typename real> class Pack {
   public:
    explicit Pack(const Call& call) : p(call, true) {}

    void run() const {
        const Packing<Cell, real> packing(p, p.call.given & INT8);
        if (p.call.packed) packing.fill(p.call.packed);
        else *static_cast<int64_t*>(p.call.out) = packing.bytes;
    }

   private:
    Plan<Cell, real> p;
};

template <typename Cell, typename real> class Forward {
   public:
    explicit Forward(const Call& call) : p(call, true), packing(p, call.given & INT8), packed(call.packed) {}

    void run() {
        expect_large(p.call.tape, p.T * p.B * p.record * int64_t(sizeof(real)));
        expect_large(p.call.out, p.T * p.B * p.size(Cell::state_widths[0]) * int64_t(sizeof(real)));
        pack();
        const Work shared = p.together ? work_for(p.dealt[0]) : Work{};
        p.in_shares([&](int share, int part, int parts) {
            const Rows& rows = p.dealt[share];
            forward_rows(rows, p.together ? shared : work_for(rows), part, parts);
        });
        p.choice.end();
    }

   private:
    using Units = typename Plan<Cell, real>::Units;

    struct Work {  // memory for one share
        bool hoist;
        int64_t room;  // rows of maps
        real *maps, **states, **others, **operands, **cuts, **sums;
    };

    Work work_for(const Rows& rows) const {
        const int n = rows.count;
        const int64_t longest = n ? rows.lengths[0] : 0;
        Work w{};
        w.hoist = p.call.packed || ((n < 4 || p.elementwise()) && !p.unpacked);
        int64_t fits = (192 << 10) / int64_t(sizeof(real)) / p.stride;  // about half of the second-level cache
        if (p.together) fits *= p.threads;  // of each thread's
        if (p.call.given & WAVE) fits = std::min<int64_t>(fits, MR);  // the layer above need not wait for more
        w.room = w.hoist ? std::max<int64_t>(n, std::min<int64_t>(n * longest, fits)) : n;
        w.maps = arena().take<real>(w.room * p.stride);
        w.states = p.buffers(Cell::STATES, Cell::state_widths, n);
        w.others = p.buffers(Cell::STATES, Cell::state_widths, n);
        w.operands = p.buffers(Cell::OPERANDS, Cell::operand_widths, n);
        w.cuts = p.buffers(Cell::FORWARD_CUTS, Cell::forward_cut_widths, n);
        w.sums = p.template pointers<real>(Cell::FORWARD_SUMS);
        for (int i = 0; i < Cell::FORWARD_SUMS; ++i) w.sums[i] = arena().take<real>(n);
        return w;
    }

    // Every block's matrices, operand by operand, as its product reads them.
    void pack() {
        if (p.unpacked || packed) return;
        packed = arena().take<char>(packing.bytes);
        packing.fill(packed);
    }

    static const Group& reader(int b, int i) { return Packing<Cell, real>::reader(b, i); }
    int64_t columns(int b) const { return packing.columns(b); }

    // maps[r] of a block, one thread's units of them, = Σ operand[r] · matrices over its operands; `of(group)` has an
    // operand's rows, or null where it is left out.
    template <typename Of>
    void block_product(int b, int rows, Of&& of, real* maps, bool add, bool down, const Units& units, int parts) const {
        const Block& block = Cell::blocks[b];
        Operand<real> operands[Cell::GROUPS + 1];
        int count = 0;
        for (int i = 0; i < block.groups; ++i) {
            const Group& group = reader(b, i);
            const real* const* from = of(group);
            if (!from) continue;
            const int64_t in = p.operand_size(group);
            const int at = block.from + i;
            if (p.unpacked) {
                for (int m = block.first; m < block.first + block.count; ++m)
                    for (int r = 0; r < rows; ++r)
                        product_unpacked(
                            from[r], in, p.parameter(p.matrix(group, m)), p.size(Cell::maps[m].width),
                            maps + r * p.stride + p.map_at[m], add || i > 0);
                continue;
            }
            if constexpr (sizeof(real) == 4)
                if (p.call.given & INT8) {
                    const Operand<real, int8_t> operand{
                        from, packing.template panels<int8_t>(packed, at), in, packing.depth(group) * NR<real>, 0,
                        packing.scales(packed, at)};
                    multiply(b, rows, &operand, 1, maps, add, down, units, parts);
                    add = true;
                    continue;
                }
            operands[count++] = {from, packing.template panels<real>(packed, at), in, in * NR<real>};
        }
        if (count) multiply(b, rows, operands, count, maps, add, down, units, parts);
    }

    template <typename stored>
    void multiply(
        int b, int rows, const Operand<real, stored>* operands, int count, real* maps, bool add, bool down, const Units& units,
        int parts) const {
        const Block& block = Cell::blocks[b];
        real* to = maps + p.map_at[block.first];
        const int64_t out = columns(b);
        if (parts == 1)
            return product<Cell::GROUPS>(rows, operands, count, 0, round_up(out, NR<real>) / NR<real>, out, to, p.stride, add, down);
        for (int m = block.first; m < block.first + block.count; ++m) {
            const int64_t at = p.map_at[m] - p.map_at[block.first];
            const int64_t first = (at + units.first[Cell::maps[m].width]) / NR<real>, last = (at + units.last[Cell::maps[m].width]) / NR<real>;
            product<Cell::GROUPS>(rows, operands, count, first, last, out, to, p.stride, add, down);
        }
    }

    void level(int number, const Frame<real>& f) const {
#if UNSPOOL_TRACE
        Cell::template forward<false, true>(number, f);
#else
        p.call.tape ? Cell::template forward<true, false>(number, f) : Cell::template forward<false, false>(number, f);
#endif
    }

    UNSPOOL_APART void forward_rows(const Rows& mine, const Work& w, int part, int parts) {
        const int n = mine.count;
        Units units = p.units_of(part, parts);
        Frame<real> f = p.frame(mine, units);
        f.operands = w.operands;
        f.cuts = w.cuts;
        f.sums = w.sums;
        real** trace = p.template pointers<real>(Cell::NAMED);
        f.trace = trace;
        // rows of the states before and after, which change places at every step, and of the operands
        real *const *now = w.states, *const *next = w.others;
        const real *const *const *now_rows = row_tables(Cell::STATES, now, Cell::state_widths, n);
        const real *const *const *next_rows = row_tables(Cell::STATES, next, Cell::state_widths, n);
        const real *const *const *operand_rows = row_tables(Cell::OPERANDS, w.operands, Cell::operand_widths, n);
        const real** x_rows = arena().take<const real*>(w.room);

        p.pass_states(mine, p.start, p.final_states, units);
        const int64_t longest = n ? mine.lengths[0] : 0, wide = p.x_stride, shown = p.size(Cell::state_widths[0]);
        const real* x = static_cast<const real*>(p.call.x);
        int alive = 0;
        int64_t slab_end = 0;
        for (int64_t done = 0; done < longest; ++done) {
            const int64_t t = p.time_of(done, longest);
            const int living = mine.alive(t, alive);
            for (int r = alive; r < living; ++r) p.take_states(now, r, mine.index[r], p.start, units);  // rows that begin
            if (living > alive && p.leaves_after_level(part, parts, units)) return;
            alive = living;
            if (!w.hoist) {
                p.progress.wait_for(done + 1);
                f.maps = w.maps;
                for (int r = 0; r < alive; ++r) x_rows[r] = x + (t * p.B + mine.index[r]) * wide;
            } else if (done == slab_end) {  // a slab: as many steps as there is room for
                int64_t rows = 0;
                const int64_t there = p.progress.wait_for(std::min(longest, done + std::max<int64_t>(1, w.room / alive)));
                for (int at_end = alive; slab_end < std::min(longest, there); ++slab_end) {
                    const int64_t then = p.time_of(slab_end, longest);
                    at_end = mine.alive(then, at_end);
                    if (rows + at_end > w.room) break;
                    for (int r = 0; r < at_end; ++r) x_rows[rows + r] = x + (then * p.B + mine.index[r]) * wide;
                    rows += at_end;
                }
                f.maps = w.maps;
                auto only_x = [&](const Group& group) { return group.origin == FROM_X ? x_rows : nullptr; };
                for (int b = 0; b < Cell::BLOCKS; ++b) block_product(b, int(rows), only_x, f.maps, false, false, units, parts);
            }
            f.rows = alive;
            f.x = x + t * p.B * wide;
            f.out = static_cast<real*>(p.call.out) + t * p.B * shown;
            if (p.call.tape) f.tape = static_cast<real*>(p.call.tape) + t * p.B * p.record;
            if (p.trace)
                for (int i = 0; i < Cell::NAMED; ++i)
                    trace[i] = static_cast<real*>(p.trace[i]) + t * p.B * p.size(Cell::named_widths[i]);
            f.before = now_rows;
            f.after = next;
            auto rows_of = [&](const Group& group) -> const real* const* {
                if (group.origin == FROM_X) return w.hoist ? nullptr : x_rows;
                return group.origin == FROM_STATE ? now_rows[group.index] : operand_rows[group.index];
            };
            for (int number = 0; number < Cell::FORWARD_LEVELS; ++number) {
                for (int b = 0; b < Cell::BLOCKS; ++b) {
                    if (Cell::blocks[b].level != number) continue;
                    bool begun = false;  // by the slab's products
                    for (int i = 0; w.hoist && i < Cell::blocks[b].groups; ++i) begun = begun || reader(b, i).origin == FROM_X;
                    block_product(b, alive, rows_of, f.maps, begun, done & 1, units, parts);
                }
                level(number, f);
                if (p.leaves_after_level(part, parts, units)) return;
            }
            if (w.hoist) f.maps += alive * p.stride;
            p.progress.finished(done + 1);
            std::swap(now, next);
            std::swap(now_rows, next_rows);
            const int staying = done + 1 < longest ? std::min(alive, mine.alive(p.time_of(done + 1, longest), 0)) : 0;
            for (int r = staying; r < alive; ++r) p.give_states(now, r, mine.index[r], p.final_states, units);  // rows that end
            alive = std::min(alive, staying);
        }
        if (part) return;
        p.clear_padding(mine, p.call.out, shown);
        if (p.trace)
            for (int i = 0; i < Cell::NAMED; ++i) p.clear_padding(mine, p.trace[i], p.size(Cell::named_widths[i]));
    }

    const real*** row_tables(int count, real* const* buffers, const int* widths, int n) const {
        const real*** tables = arena().take<const real**>(count + 1);
        for (int i = 0; i < count; ++i) {
            tables[i] = arena().take<const real*>(n);
            for (int r = 0; r < n; ++r) tables[i][r] = buffers[i] + r * p.size(widths[i]);
        }
        return tables;
    }

    Plan<Cell, real> p;
    const Packing<Cell, real> packing;
    void* packed;
};

}  // namespace unspool
