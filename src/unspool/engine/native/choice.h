// One thread or many, one layer at a time or many at once: what is faster depends on the processor, on how soon a sleeping
// thread wakes, and on who else wants the cores. So it is measured, call by call. Both ways leave the same bits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "parallel.h"

// For tests: 1 is always ONE, 2 always MANY.
#ifndef UNSPOOL_WAY
#define UNSPOOL_WAY 0
#endif

namespace unspool {

enum Way { ONE, MANY };

// What has been measured of calls of one kind. Costs are nanoseconds per unit of work.
class Experience {
   public:
    explicit Experience(uint64_t kind = 0) : kind(kind) {}

    Way choose(double work) {
        if (trial_ > 0) return tried_;
        if (!ways_[MANY].cost) return begin(MANY);
        if (!ways_[ONE].cost && ways_[MANY].cost * work < SHORT) return begin(ONE);
        return pause_ > 0 ? faster() : begin(other(faster()));
    }

    void learn(Way way, double work, double nanoseconds) {
        Measured& used = ways_[way];
        const Way believed = faster();
        age_ += nanoseconds;
        used.lately = 0.9 * used.lately + nanoseconds;
        used.work = 0.9 * used.work + work;
        const double found = nanoseconds / work;
        if (trial_ > 0 && way == tried_) {
            if (trial_ < TRIAL) best_ = std::min(best_, found);
            if (--trial_ > 0) return;
            used.cost = best_;
            returns_ = true;
        } else if (returns_) {  // before the first call after a trial, too, threads may have slept
            returns_ = false;
            pause_ += std::max(nanoseconds - work * used.cost, 0.0) / CURIOSITY;
            return;
        } else {
            if (way == believed) pause_ -= nanoseconds;
            used.cost += std::clamp(found - used.cost, -used.cost, used.cost) / 4;  // one slow call says little
            if (faster() == believed) return;
        }
        // a trial has ended, or what was believed to be faster is not
        const Way best = faster();
        const Measured& slower = ways_[other(best)];
        const double lost = slower.cost ? slower.lately - slower.work * ways_[best].cost : SHORT;
        pause_ = std::max(std::min(lost / CURIOSITY, TRUST * age_), PAUSE * work * ways_[best].cost);
    }

    uint64_t kind;

   private:
    struct Measured {
        double cost = 0;              // 0: not known
        double lately = 0, work = 0;  // nanoseconds, and what was done in them, in the latest calls
    };
    // Calls of a trial. The fastest of them counts, but not the first, before which threads may have slept.
    static constexpr int TRIAL = 4;
    // The part of all time that may be lost by trials of the slower way.
    static constexpr double CURIOSITY = 0.01;
    // How long the outcome of a trial holds, in parts of all time so far: a program's first calls say little.
    static constexpr int TRUST = 2;
    // Calls between trials, at least.
    static constexpr int PAUSE = 8;
    // Nanoseconds of a call that is short enough to try ONE soon.
    static constexpr double SHORT = 5e7;

    static Way other(Way way) { return way == ONE ? MANY : ONE; }
    Way faster() const { return ways_[ONE].cost > 0 && ways_[ONE].cost < ways_[MANY].cost ? ONE : MANY; }
    Way begin(Way way) {
        trial_ = TRIAL, best_ = HUGE_VAL;
        ways_[way].lately = ways_[way].work = 0;
        return tried_ = way;
    }

    Measured ways_[2];
    double pause_ = 0;  // nanoseconds in the faster way until the next trial
    double age_ = 0;    // nanoseconds of all calls
    double best_ = 0;   // of a trial
    int trial_ = 0;     // calls of a trial that are left
    bool returns_ = false;
    Way tried_ = MANY;
};

// The choice for one call. What is learned is kept by the kind of call; two kinds may push each other out.
class Choice {
   public:
    // `kind` is a hash of what calls have in common.
    Way begin(uint64_t kind, double work) {
        if (UNSPOOL_WAY) return UNSPOOL_WAY == 1 ? ONE : MANY;
        const Lock lock;
        if (!lock.held) return MANY;
        Experience& known = at(kind);
        if (known.kind != kind) known = Experience{kind};
        kind_ = kind, work_ = work;
        way_ = known.choose(work);
        begun_ = nanoseconds();
        return way_;
    }
    void end() const {
        if (!begun_) return;
        const double spent = double(std::max<int64_t>(nanoseconds() - begun_, 1));
        const Lock lock;
        if (!lock.held) return;
        Experience& known = at(kind_);
        if (known.kind == kind_) known.learn(way_, work_, spent);
    }

   private:
    struct Lock {  // of a caller that does not wait: whoever finds it taken does without
        const bool held = !taken().test_and_set(std::memory_order_acquire);
        ~Lock() {
            if (held) taken().clear(std::memory_order_release);
        }
        static std::atomic_flag& taken() {
            static std::atomic_flag flag = ATOMIC_FLAG_INIT;
            return flag;
        }
    };
    static Experience& at(uint64_t kind) {
        static Experience known[256];
        return known[(kind ^ kind >> 32) % 256];
    }

    uint64_t kind_ = 0;
    double work_ = 0;
    Way way_ = MANY;
    int64_t begun_ = 0;
};

inline uint64_t hash(uint64_t seed, uint64_t value) {
    seed = (seed ^ value) * 0x9E3779B97F4A7C15u;
    return seed ^ seed >> 29;
}
// A number of steps as a kind: calls of nearly as many are of one kind.
inline uint64_t magnitude(int64_t number) {
    int bits = 0;
    while (number >> bits) ++bits;
    return uint64_t(bits);
}

}  // namespace unspool
