// Scratch memory that a thread keeps from call to call, since fresh pages cost more than the work done in them.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace unspool {

class Arena {
   public:
    ~Arena() { release(); }
    void reset() {
        if (blocks_.size() > 1) {  // one block next time
            size_t total = 0;
            for (auto& block : blocks_) total += block.size;
            release();
            add(total);
        }
        used_ = 0;
    }
    template <typename T> T* take(int64_t count) {
        size_t bytes = (size_t(count) * sizeof(T) + 127) / 64 * 64;  // aligned, with room for a vector's overhang
        if (blocks_.empty() || used_ + bytes > blocks_.back().size) {
            add(bytes > MINIMUM ? bytes : MINIMUM);
            used_ = 0;
        }
        T* at = reinterpret_cast<T*>(blocks_.back().data + used_);
        used_ += bytes;
        return at;
    }
    template <typename T> T* zeros(int64_t count) {
        T* at = take<T>(count);
        std::memset(static_cast<void*>(at), 0, size_t(count) * sizeof(T));
        return at;
    }

   private:
    static constexpr size_t MINIMUM = 1 << 18;
    struct Block {
        char* data;
        size_t size;
    };
    void add(size_t size) {
        size = (size + 63) / 64 * 64;
        auto* data = static_cast<char*>(std::aligned_alloc(64, size));
        if (!data) throw std::bad_alloc();
        blocks_.push_back({data, size});
    }
    void release() {
        for (auto& block : blocks_) std::free(block.data);
        blocks_.clear();
    }
    std::vector<Block> blocks_;
    size_t used_ = 0;
};

// Asks for large pages where much fresh memory is about to be filled: each small page of it would cost a fault.
inline void expect_large(void* data, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t LARGE = 2 << 20;
    uintptr_t from = (reinterpret_cast<uintptr_t>(data) + LARGE - 1) / LARGE * LARGE;
    uintptr_t to = (reinterpret_cast<uintptr_t>(data) + uintptr_t(bytes)) / LARGE * LARGE;
    if (data && to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
    (void)data, (void)bytes;
#endif
}

inline Arena& arena() {
    static thread_local Arena own;
    return own;
}

}  // namespace unspool
