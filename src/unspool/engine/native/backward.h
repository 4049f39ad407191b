// The way back: the reversed levels down the time loop; then, slab by slab, the sums of outer products that gradients of
// matrices are.
#pragma once

#include "outer.h"
#include "plan.h"

namespace unspool {

template <typename Cell, typename real> class Backward {
   public:
    explicit Backward(const Call& call) : p(call, false) {}

    void run() {
        pack();
        Sums* sums = arena().take<Sums>(p.shares);  // with what they point to, in memory that outlives the threads
        for (int share = 0; share < p.shares; ++share) {
            for (int g = 0; g < Cell::GROUPS; ++g)
                sums[share].outer[g] = arena().take<real>(p.operand_size(Cell::groups[g]) * p.columns(Cell::groups[g]));
            sums[share].maps = arena().take<real>(p.stride);
            for (int i = 0; i < Cell::PARAMETERS; ++i)
                sums[share].vectors[i] = Cell::parameters[i].columns < 0 ? arena().take<real>(p.size(Cell::parameters[i].rows)) : nullptr;
        }
        Work shared{};
        if (p.together) {
            shared = work_for(p.dealt[0]);
            clear(sums[0]);
        }
        p.in_shares([&](int share, int part, int parts) {
            if (!p.together) clear(sums[share]);
            const Rows& rows = p.dealt[share];
            backward_rows(rows, p.together ? shared : work_for(rows), sums[share], part, parts);
        });
        run_parallel(p.threads, [&](int thread, int threads) { gather(thread, threads, sums); });
        p.choice.end();
    }

   private:
    using Units = typename Plan<Cell, real>::Units;

    struct Sums {  // one share's part of the gradients of parameters
        real* outer[Cell::GROUPS + 1];
        real* maps;  // Σ d_maps, for the biases
        real* vectors[Cell::PARAMETERS + 1];
    };
    struct Work {      // memory for one share
        int64_t room;  // rows of a slab
        real *slab, **states, **others, **operands, **cuts, **sums, **backs, **packed_rows, *d_x;
    };

    Work work_for(const Rows& rows) const {
        const int n = rows.count;
        const int64_t longest = n ? rows.lengths[0] : 0;
        Work w{};
        w.room = std::max<int64_t>(n, std::min<int64_t>(n * longest, OUTER_ROWS));
        w.slab = arena().zeros<real>(w.room * p.stride);
        w.states = p.buffers(Cell::STATES, Cell::state_widths, n);
        w.others = p.buffers(Cell::STATES, Cell::state_widths, n);
        w.operands = p.template pointers<real>(Cell::OPERANDS);
        // zeros: what only maps without a gradient read is not computed again
        for (int i = 0; i < Cell::OPERANDS; ++i) w.operands[i] = arena().zeros<real>(n * p.size(Cell::operand_widths[i]));
        w.cuts = p.buffers(Cell::BACKWARD_CUTS, Cell::backward_cut_widths, n);
        w.sums = p.template pointers<real>(Cell::BACKWARD_SUMS);
        for (int i = 0; i < Cell::BACKWARD_SUMS; ++i) w.sums[i] = arena().take<real>(n);
        w.backs = p.template pointers<real>(Cell::BACKS);
        for (int i = 0; i < Cell::BACKS; ++i) w.backs[i] = arena().take<real>(n * p.size(Cell::operand_widths[Cell::backs[i].operand]));
        w.packed_rows = p.template pointers<real>(Cell::GROUPS);
        for (int g = 0; g < Cell::GROUPS; ++g)
            w.packed_rows[g] = first_of(g) < g ? w.packed_rows[first_of(g)]
                                               : arena().take<real>(packed_rows_size<real>(w.room, p.operand_size(Cell::groups[g])));
        w.d_x = p.call.d_x ? arena().take<real>(w.room * p.sizes[0]) : nullptr;
        return w;
    }

    void clear(Sums& sums) const {
        for (int g = 0; g < Cell::GROUPS; ++g)
            std::memset(sums.outer[g], 0, size_t(p.operand_size(Cell::groups[g]) * p.columns(Cell::groups[g])) * sizeof(real));
        std::memset(sums.maps, 0, size_t(p.stride) * sizeof(real));
        for (int i = 0; i < Cell::PARAMETERS; ++i)
            if (sums.vectors[i]) std::memset(sums.vectors[i], 0, size_t(p.size(Cell::parameters[i].rows)) * sizeof(real));
    }

    // The first group with this group's operand.
    static int first_of(int g) {
        for (int other = 0; other < g; ++other)
            if (Cell::groups[other].origin == Cell::groups[g].origin && Cell::groups[other].index == Cell::groups[g].index) return other;
        return g;
    }

    // Every group's matrices, one above the other, as products with gradients read them.
    void pack() {
        if (p.unpacked) return;
        packed = arena().take<real*>(Cell::GROUPS + 1);
        int64_t work = 0;
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const int64_t in = p.operand_size(Cell::groups[g]), out = p.columns(Cell::groups[g]);
            packed[g] = arena().take<real>(packed_size<real>(out, in));
            work += in * out;
        }
        run_parallel(work > 1 << 16 ? p.threads : 1, [&](int worker, int workers) {
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                if (group.origin == FROM_X && !p.call.d_x) continue;
                const int64_t in = p.operand_size(group), out = p.columns(group), panels = round_up(in, NR<real>) / NR<real>;
                const int64_t first = panels * worker / workers, last = panels * (worker + 1) / workers;
                if (last > first && last * NR<real> > in)  // the last panel's overhang
                    std::memset(packed[g] + (last - 1) * NR<real> * out, 0, size_t(NR<real> * out) * sizeof(real));
                for (int m = group.first; m < group.first + group.count; ++m) {
                    const int64_t at = p.map_at[m] - p.map_at[group.first];
                    pack_straight(packed[g], out, at, p.parameter(p.matrix(group, m)), p.size(Cell::maps[m].width), in, first, last);
                }
            }
        });
    }

    // to[r] (+)= Σ d_maps · matrices over the groups with this operand: columns first … last of it.
    void back_product(
        Origin origin, int index, int rows, const real* const* d_maps, real* to, bool add, int64_t first, int64_t last) const {
        Operand<real> operands[Cell::GROUPS + 1];
        int count = 0;
        int64_t in = 0;
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            if (group.origin != origin || group.index != index) continue;
            in = p.operand_size(group);
            const int64_t out = p.columns(group);
            if (!p.unpacked) {
                operands[count++] = {d_maps, packed[g], out, out * NR<real>, p.map_at[group.first]};
                continue;
            }
            for (int r = 0; r < rows; ++r) {
                if (!add) std::memset(to + r * in, 0, size_t(in) * sizeof(real));
                for (int m = group.first; m < group.first + group.count; ++m)
                    product_back_unpacked(
                        d_maps[r] + p.map_at[m], p.size(Cell::maps[m].width), p.parameter(p.matrix(group, m)), in, to + r * in);
            }
            add = true;
        }
        if (count)
            product<Cell::GROUPS>(rows, operands, count, first / NR<real>, round_up(last, NR<real>) / NR<real>, in, to, in, add);
    }
    static constexpr bool reads(Origin origin, int index) {
        for (int g = 0; g < Cell::GROUPS; ++g)
            if (Cell::groups[g].origin == origin && Cell::groups[g].index == index) return true;
        return false;
    }

    UNSPOOL_APART void backward_rows(const Rows& mine, const Work& w, Sums& sums, int part, int parts) {
        const int n = mine.count;
        Units units = p.units_of(part, parts);
        Frame<real> f = p.frame(mine, units);
        f.operands = w.operands;
        f.cuts = w.cuts;
        f.sums = w.sums;
        f.backs = w.backs;
        f.d_vectors = sums.vectors;
        real *const *now = w.states, *const *next = w.others;
        const real*** before = arena().take<const real**>(Cell::STATES + 1);
        for (int k = 0; k < Cell::STATES; ++k) before[k] = arena().take<const real*>(n);
        f.before = before;
        const real** slab_rows = arena().take<const real*>(w.room);
        for (int64_t i = 0; i < w.room; ++i) slab_rows[i] = w.slab + i * p.stride;
        int64_t* d_x_at = arena().take<int64_t>(w.room);
        const int64_t width = p.size(Cell::state_widths[0]);
        const bool same = !p.call.d_out || p.call.given & SAME;  // one row for all
        const real* d_out = p.call.d_out ? static_cast<const real*>(p.call.d_out) : arena().zeros<real>(width);
        int64_t widest = 0;
        for (int k = 0; k < Cell::STATES; ++k) widest = std::max(widest, p.size(Cell::state_widths[k]));
        const real* nothing = p.start ? nullptr : arena().zeros<real>(widest);

        p.pass_states(mine, p.d_final, p.d_start, units);
        const int64_t longest = n ? mine.lengths[0] : 0;
        int alive = 0;
        int64_t filled = 0, handed = 0;  // rows of the slab, and of those the ones whose gradient of x is there
        for (int64_t undone = longest; undone-- > 0;) {
            const int64_t t = p.time_of(undone, longest);
            const int living = mine.alive(t, 0);
            for (int r = alive; r < living; ++r) p.take_states(now, r, mine.index[r], p.d_final, units);
            alive = living;
            p.progress.wait_for(longest - undone);
            if (filled + alive > w.room) {
                flush(filled, handed, w, slab_rows, d_x_at, sums, units, part, parts);
                filled = handed = 0;
            }
            for (int k = 0; k < Cell::STATES; ++k) {
                const int64_t wide = p.size(Cell::state_widths[k]);
                for (int r = 0; r < alive; ++r) {
                    const int64_t b = mine.index[r];
                    const bool first = p.call.reverse ? t == mine.lengths[r] - 1 : t == 0;
                    const int64_t earlier = p.call.reverse ? t + 1 : t - 1;
                    before[k][r] = first    ? (p.start ? static_cast<const real*>(p.start[k]) + b * wide : nothing)
                                   : k == 0 ? static_cast<const real*>(p.call.out) + (earlier * p.B + b) * wide
                                            : static_cast<const real*>(p.call.tape) + (earlier * p.B + b) * p.record + p.after_at[k];
                }
            }
            f.rows = alive;
            f.x = static_cast<const real*>(p.call.x) + t * p.B * p.x_stride;
            f.out = static_cast<real*>(p.call.out) + t * p.B * width;
            f.tape = static_cast<real*>(p.call.tape) + t * p.B * p.record;
            f.d_out = same ? d_out : d_out + t * p.B * width;
            f.d_out_stride = same ? 0 : width;
            f.d_x = p.call.d_x ? static_cast<real*>(p.call.d_x) + t * p.B * p.x_stride : nullptr;
            f.d_maps = w.slab + filled * p.stride;
            f.d_after = now;
            f.d_before = next;
            for (int level = 0; level < Cell::BACKWARD_LEVELS; ++level) {
                for (int i = 0; i < Cell::BACKS; ++i) {
                    const int operand = Cell::backs[i].operand, size = Cell::operand_widths[operand];
                    if (Cell::backs[i].level != level) continue;
                    back_product(FROM_VALUE, operand, alive, slab_rows + filled, w.backs[i], false, units.first[size], units.last[size]);
                }
                Cell::template backward<real>(level, f);
                if (p.leaves_after_level(part, parts, units)) return;
            }
            for (int k = 0; k < Cell::STATES; ++k) {
                const int size = Cell::state_widths[k];
                if (reads(FROM_STATE, k))
                    back_product(FROM_STATE, k, alive, slab_rows + filled, next[k], Cell::D_BEFORE[k], units.first[size], units.last[size]);
                else if (!Cell::D_BEFORE[k])
                    for (int r = 0; r < alive; ++r) p.copy_state(k, next[k], r, nullptr, 0, units);
            }
            for (int g = 0; g < Cell::GROUPS; ++g) {
                const Group& group = Cell::groups[g];
                if (first_of(g) < g) continue;
                // a thread packs its own units: the others may be at the next step already, and write their operands anew
                const int64_t in = p.operand_size(group), first = units.first[p.width_of(group)], last = units.last[p.width_of(group)];
                for (int r = 0; r < alive; ++r)
                    pack_row(
                        w.packed_rows[g], w.room, filled + r,
                        group.origin == FROM_X       ? f.x + mine.index[r] * p.x_stride
                        : group.origin == FROM_STATE ? before[group.index][r]
                                                     : w.operands[group.index] + r * in,
                        in, first, last);
            }
            for (int r = 0; r < alive; ++r) d_x_at[filled + r] = (t * p.B + mine.index[r]) * p.x_stride;
            filled += alive;
            if (p.progress.is_read() && (filled - handed >= MR || filled + alive > w.room || undone == 0)) {
                give_x(handed, filled, w, slab_rows, d_x_at);
                handed = filled;
                p.progress.finished(longest - undone);
            }
            std::swap(now, next);
            const int staying = undone > 0 ? std::min(alive, mine.alive(p.time_of(undone - 1, longest), 0)) : 0;
            for (int r = staying; r < alive; ++r) p.give_states(now, r, mine.index[r], p.d_start, units);
            alive = std::min(alive, staying);
        }
        flush(filled, handed, w, slab_rows, d_x_at, sums, units, part, parts);
        if (p.call.d_x && !part) p.clear_padding(mine, p.call.d_x, p.x_stride);
    }

    // The gradient of x of some of the slab's rows.
    UNSPOOL_APART void give_x(int64_t first, int64_t last, const Work& w, const real* const* slab_rows, const int64_t* d_x_at) {
        if (!p.call.d_x) return;
        const int64_t in = p.sizes[0];
        if (reads(FROM_X, 0)) back_product(FROM_X, 0, int(last - first), slab_rows + first, w.d_x + first * in, false, 0, in);
        for (int64_t i = first; i < last; ++i) {
            real* to = static_cast<real*>(p.call.d_x) + d_x_at[i];
            loop<real>(0, in, [&](int64_t j, auto lanes) {
                vec<real> v = reads(FROM_X, 0) ? lanes.load(w.d_x + i * in + j) : vec<real>{};
                if (Cell::X_UNIT_BY_UNIT) v += lanes.load(to + j);
                lanes.store(to + j, v);
            });
        }
    }

    // The slab's part of the gradients: outer products, column sums, and the gradient of x from row `handed` on.
    UNSPOOL_APART void flush(
        int64_t filled, int64_t handed, const Work& w, const real* const* slab_rows, const int64_t* d_x_at, Sums& sums, const Units& units, int part,
        int parts) {
        if (filled == 0) return;
        p.barrier.meet(part, parts);
        for (int m = 0; m < Cell::MAPS; ++m) {
            const int64_t first = p.map_at[m] + units.first[Cell::maps[m].width], last = p.map_at[m] + units.last[Cell::maps[m].width];
            add_columns(filled, w.slab, p.stride, first, last, sums.maps);
        }
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            const int64_t out = p.columns(group), in = p.operand_size(group), at = p.map_at[group.first];
            auto add = [&](int64_t first, int64_t last) {
                add_outer(filled, w.room, w.packed_rows[g], in, w.slab + at + first, p.stride, last - first, sums.outer[g] + first, out);
            };
            if (parts == 1) add(0, out);
            else
                for (int m = group.first; m < group.first + group.count; ++m)
                    add(p.map_at[m] - at + units.first[Cell::maps[m].width], p.map_at[m] - at + units.last[Cell::maps[m].width]);
        }
        const int64_t rest = filled - handed;
        give_x(handed + rest * part / parts, handed + rest * (part + 1) / parts, w, slab_rows, d_x_at);
        p.barrier.meet(part, parts);
    }

    // Whether an earlier place has the same matrix: a map that is applied several times.
    static bool used_before(int place) {
        for (int other = 0; other < place; ++other)
            if (Cell::matrices[other] == Cell::matrices[place]) return true;
        return false;
    }

    // The shares' parts added up in a fixed order and laid out as the parameters are.
    void gather(int thread, int threads, const Sums* sums) const {
        const real** from = arena().take<const real*>(p.shares);
        for (int g = 0; g < Cell::GROUPS; ++g) {
            const Group& group = Cell::groups[g];
            const int64_t in = p.operand_size(group), out = p.columns(group);
            for (int m = group.first; m < group.first + group.count; ++m) {
                const int64_t at = p.map_at[m] - p.map_at[group.first], rows = p.size(Cell::maps[m].width);
                const int matrix = p.matrix(group, m);
                real* to = p.gradient(matrix);
                const bool again = used_before(group.matrices + m - group.first);
                constexpr int64_t STRIP = 32;
                for (int64_t row = 0; row < rows; row += STRIP) {
                    if ((matrix + row / STRIP) % threads != thread) continue;  // the same thread at each use of a matrix
                    for (int s = 0; s < p.shares; ++s) from[s] = sums[s].outer[g] + at + row;
                    add_transposed(to + row * in, in, from, p.shares, out, std::min(STRIP, rows - row), in, again);
                }
            }
        }
        if (thread) return;
        for (int i = 0; i < Cell::PARAMETERS; ++i) {
            if (Cell::parameters[i].columns >= 0) {
                bool used = false;
                for (int j = 0; j < Cell::MATRICES; ++j) used = used || Cell::matrices[j] == i;
                if (!used)
                    std::memset(p.gradient(i), 0, size_t(p.size(Cell::parameters[i].rows) * p.size(Cell::parameters[i].columns)) * sizeof(real));
                continue;
            }
            real* to = p.gradient(i);
            for (int64_t j = 0; j < p.size(Cell::parameters[i].rows); ++j) {
                real total = 0;
                for (int s = 0; s < p.shares; ++s) {
                    for (int m = 0; m < Cell::MAPS; ++m)
                        if (Cell::maps[m].bias == i) total += sums[s].maps[p.map_at[m] + j];
                    total += sums[s].vectors[i][j];
                }
                to[j] = total;
            }
            real* also = p.at(p.d_arrays, p.call.places[i][1]);
            if (also) std::memcpy(also, to, size_t(p.size(Cell::parameters[i].rows)) * sizeof(real));
        }
    }

    Plan<Cell, real> p;
    real** packed = nullptr;
};

}  // namespace unspool
