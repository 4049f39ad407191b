// Several calls, each a layer of a stack that reads what the one before writes, step by step: at once, or one by one.
//
// A call says how many steps it has finished, and waits until the one before has finished those that it needs. A thread
// takes its calls in order, and a call waits for an earlier one only: so the first unfinished call can always go on,
// however many threads there are.
#pragma once

#include <climits>

#include "call.h"
#include "choice.h"

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
        Call* call;  // with WAVE
        std::atomic<int64_t>* own;
    } calls[1];
};

// What waves have in common that take nearly as long per step and row.
inline uint64_t kind_of(const Wave& wave) {
    uint64_t found = hash(0, uint64_t(wave.threads));
    for (int64_t i = 0; i < wave.count; ++i) {
        const Call& call = *wave.calls[i].call;
        found = hash(found, uint64_t(reinterpret_cast<uintptr_t>(wave.calls[i].pass)));
        for (int64_t value : {call.sizes[0], call.batch, int64_t(call.tape != nullptr), int64_t(call.lengths != nullptr)})
            found = hash(found, uint64_t(value));
        found = hash(found, magnitude(call.steps));
    }
    return found;
}

// Runs the calls at once, a thread each, or one after the other, each with all threads: as is faster. 0, or 1 if there was
// not enough memory.
inline int run_wave(const void* wave) noexcept {
    const Wave& asked = *static_cast<const Wave*>(wave);
    if (asked.forked) OpenMP::forked = true;
    const Call& first = *asked.calls[0].call;
    Choice choice;
    const bool at_once = choice.begin(kind_of(asked), double(std::max<int64_t>(first.steps * first.batch, 1))) == MANY;
    std::atomic<bool> failed{false};
    try {
        run_parallel(at_once ? int(std::min(asked.threads, asked.count)) : 1, [&](int thread, int count) {
            for (int64_t i = thread; i < asked.count; i += count) {
                const auto& one = asked.calls[i];
                one.call->threads = at_once ? 1 : asked.threads;
                if (!at_once) one.call->given = (one.call->given & ~WAVE) | UNSPLIT;
                if (one.pass(one.call)) failed = true;
                one.own->store(LLONG_MAX, std::memory_order_release);  // after a failure, too: nobody waits in vain
            }
        });
    } catch (...) {
        return 1;
    }
    choice.end();
    return failed;
}

}  // namespace unspool
