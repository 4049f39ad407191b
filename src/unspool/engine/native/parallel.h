// Runs a body in several threads: in those of the OpenMP runtime that the process already has (torch's), else in new ones.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace unspool {

// The OpenMP runtime's own entry points. Sharing its threads matters: they spin for milliseconds after torch's last
// parallel loop, and threads of our own would have to fight them for the cores.
struct OpenMP {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
    int (*thread)() = nullptr;
    int (*threads)() = nullptr;
    int (*within)() = nullptr;
    OpenMP() {
        parallel = reinterpret_cast<decltype(parallel)>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
        thread = reinterpret_cast<decltype(thread)>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
        threads = reinterpret_cast<decltype(threads)>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
        within = reinterpret_cast<decltype(within)>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
        pthread_atfork(nullptr, nullptr, [] { forked = true; });
    }
    bool usable() const { return parallel && thread && threads && within && !forked && !within(); }
    static inline bool forked = false;  // a runtime's threads do not survive a fork, and it does not notice
};

// body(thread, count): the runtime may give fewer threads than were asked for, so the body hears how many there are.
template <typename Body> void run_parallel(int count, Body&& body) {
    static const OpenMP openmp;
    if (count <= 1) return body(0, 1);
    std::atomic<bool> failed{false};
    auto careful = [&](int thread, int threads) {  // what is thrown must not leave a thread
        try {
            body(thread, threads);
        } catch (...) {
            failed = true;
        }
    };
    if (openmp.usable()) {
        struct Shared {
            decltype(careful)* body;
            const OpenMP* openmp;
        } shared{&careful, &openmp};
        openmp.parallel(
            [](void* data) {
                auto* shared = static_cast<Shared*>(data);
                (*shared->body)(shared->openmp->thread(), shared->openmp->threads());
            },
            &shared, unsigned(count), 0);
    } else {
        std::vector<std::thread> others;
        others.reserve(size_t(count) - 1);
        std::atomic<int> there{0};  // how many there are is known when all that can be are
        try {
            for (int k = 1; k < count; ++k)
                others.emplace_back([&careful, &there, k] {
                    while (!there) sched_yield();
                    careful(k, there);
                });
        } catch (const std::system_error&) {  // no more threads: with those that there are
        }
        there = int(others.size()) + 1;
        careful(0, there);
        for (auto& other : others) other.join();
    }
    if (failed) throw std::bad_alloc();
}

inline int64_t nanoseconds() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// Waiting, in nanoseconds, that is worth a thought. For tests: below zero, the meeting at which threads part.
#ifndef UNSPOOL_LONG_WAIT
#define UNSPOOL_LONG_WAIT 300000
#endif
constexpr int64_t LONG_WAIT = UNSPOOL_LONG_WAIT;
// Looks at what a thread waits for before it gives way: some ten microseconds.
constexpr int SOON = 400;

// What a thread does between looks at what it waits for: spin, and give way soon, since the other may need this core.
inline void wait_a_moment(int spins) {
#if defined(__x86_64__)
    if (spins < SOON) return __builtin_ia32_pause();
#endif
    if (spins >= SOON) sched_yield();
}

// Where threads wait for each other many thousand times a second. Each says in a line of the cache of its own how many times
// it has come, and reads the others'. That pays only as long as each has a core: where other processes take it, a thread
// waits for milliseconds for one that would need microseconds.
class Barrier {
   public:
    struct alignas(64) Place {
        std::atomic<int64_t> come{0};  // twice the number of times, and 1 if the threads part now
    };

    // `places` has one for each thread.
    void begin(Place* places) { places_ = places, begun_ = nanoseconds(); }

    void meet(int part, int parts) {
        if (parts > 1) come(part, parts, false);
    }
    // As `meet`. Whether the first thread had better go on alone from here, since half of the time was waited; all threads
    // hear the same.
    bool meet_or_part(int part, int parts) { return parts > 1 && come(part, parts, true); }

    // One will not come: the others need not wait.
    void desert() { deserted_ = true; }

   private:
    bool come(int part, int parts, bool may_part) {
        std::atomic<int64_t>& own = places_[part].come;
        const int64_t now = own.load(std::memory_order_relaxed) / 2 + 1;
        bool parting = part == 0 && may_part && had_better_part(now, parts);
        own.store(2 * now + parting, std::memory_order_release);
        for (int other = 0; other < parts; ++other) {
            if (other == part) continue;
            const int64_t found = wait_for(places_[other].come, now);
            if (other == 0) parting = found == 2 * now + 1;  // one that has come again did not part
        }
        return parting;
    }
    int64_t wait_for(const std::atomic<int64_t>& other, int64_t times) {
        int64_t found, since = 0;
        for (int spins = 0; (found = other.load(std::memory_order_acquire)) < 2 * times; ++spins) {
            if (deserted_) throw std::bad_alloc();
            if (spins == SOON) since = nanoseconds();
            wait_a_moment(spins);
        }
        if (since) waited_.fetch_add(nanoseconds() - since, std::memory_order_relaxed);
        return found;
    }
    bool had_better_part(int64_t times, int parts) const {
        if (LONG_WAIT < 0) return times >= -LONG_WAIT;
        const int64_t each = waited_.load(std::memory_order_relaxed) / (parts - 1);
        return each > LONG_WAIT && 2 * each > nanoseconds() - begun_;
    }

    std::atomic<bool> deserted_{false};
    Place* places_ = nullptr;
    int64_t begun_ = 0;
    std::atomic<int64_t> waited_{0};  // nanoseconds, of all threads together
};

}  // namespace unspool
