// Several calls at once, each a layer of a stack that reads what the one before writes, step by step.
//
// A call says how many steps it has finished, and waits until the one before has finished those that it needs. A thread
// takes its calls in order, and a call waits for an earlier one only: so the first unfinished call can always go on,
// however many threads there are.
#pragma once

#include <climits>

#include "parallel.h"

namespace unspool {

// How many steps the call that is read from has finished, and this one; null where nobody is read from, or reads.
struct Progress {
    const std::atomic<int64_t>* read = nullptr;
    std::atomic<int64_t>* own = nullptr;

    bool is_read() const { return own; }
    // Waits for so many steps; the number that there are.
    int64_t wait_for(int64_t steps) const {
        if (!read) return LLONG_MAX;
        int64_t there;
        for (int spins = 0; (there = read->load(std::memory_order_acquire)) < steps; ++spins) wait_a_moment(spins);
        return there;
    }
    void finished(int64_t steps) const {
        if (own) own->store(steps, std::memory_order_release);
    }
};

extern "C" struct Wave {
    int64_t count, threads;
    int64_t forked;  // whether the process is a fork, perhaps from before this library was loaded
    struct {
        int (*pass)(const void*);
        const void* call;
        std::atomic<int64_t>* own;
    } calls[1];
};

// 0, or 1 if there was not enough memory.
inline int run_wave(const void* wave) noexcept {
    const Wave& asked = *static_cast<const Wave*>(wave);
    if (asked.forked) OpenMP::forked = true;
    std::atomic<bool> failed{false};
    Attempt attempt;
    const int threads = asked.threads > 1 && Crowd::is_there() ? 1 : int(asked.threads);
    if (threads > 1) attempt.begin();
    try {
        run_parallel(threads, [&](int thread, int count) {
            for (int64_t i = thread; i < asked.count; i += count) {
                const auto& one = asked.calls[i];
                if (one.pass(one.call)) failed = true;
                one.own->store(LLONG_MAX, std::memory_order_release);  // after a failure, too: nobody waits in vain
            }
        });
    } catch (...) {
        return 1;
    }
    attempt.end(false);
    return failed;
}

}  // namespace unspool
