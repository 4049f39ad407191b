// Runs a body in several threads: in those of the OpenMP runtime that the process already has (torch's), else in new ones.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

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

template <typename Body> void run_parallel(int count, Body&& body) {
    static const OpenMP openmp;
    if (count <= 1) {
        if (count == 1) body(0);
        return;
    }
    if (openmp.usable()) {
        struct Shared {
            Body* body;
            int count;
            const OpenMP* openmp;
        } shared{&body, count, &openmp};
        openmp.parallel(
            [](void* data) {
                auto* shared = static_cast<Shared*>(data);
                int step = shared->openmp->threads();
                for (int k = shared->openmp->thread(); k < shared->count; k += step) (*shared->body)(k);
            },
            &shared, unsigned(count), 0);
        return;
    }
    std::vector<std::thread> others;
    others.reserve(size_t(count) - 1);
    for (int k = 1; k < count; ++k) others.emplace_back([&body, k] { body(k); });
    body(0);
    for (auto& other : others) other.join();
}

}  // namespace unspool
