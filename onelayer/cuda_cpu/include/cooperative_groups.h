// Groups of threads: a block, its tiles of up to 32 threads, the lanes that came together. What a
// group does is a barrier or a warp operation (sync.h), and is watched as that.
//
// A group of the whole grid has its ranks and no sync(): blocks run one after another here.
#pragma once
#include "onelayer_cuda.h"

namespace cooperative_groups {

class thread_block {
  public:
    static void sync(ONELAYER_LINE) { onelayer_barrier(0, 0, line); }
    static unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
  public:
    static unsigned long long block_rank() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    static unsigned long long thread_rank() {
        return block_rank() * thread_block::size() + thread_block::thread_rank();
    }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static dim3 group_dim() { return gridDim; }
    static bool is_valid() { return false; }  // as on a GPU after an ordinary launch
};
inline grid_group this_grid() { return {}; }

// Lanes of one warp, as a mask; the rank of a thread is its place among them.
class coalesced_group {
  public:
    explicit coalesced_group(unsigned mask) : mask(mask) {}

    unsigned size() const { return (unsigned)__builtin_popcount(mask); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return (unsigned)__builtin_popcount(mask & ((1u << onelayer_cuda::lane()) - 1));
    }
    void sync(ONELAYER_LINE) const { onelayer_warp(OL_SYNCWARP, mask, 0, -1, line); }
    int any(int p, ONELAYER_LINE) const { return (int)onelayer_warp(OL_ANY, mask, p != 0, -1, line); }
    int all(int p, ONELAYER_LINE) const { return (int)onelayer_warp(OL_ALL, mask, p != 0, -1, line); }
    unsigned ballot(int p, ONELAYER_LINE) const {
        return packed((unsigned)onelayer_warp(OL_BALLOT, mask, p != 0, -1, line));
    }
    template <class T> unsigned match_any(T value, ONELAYER_LINE) const {
        uint64_t bits = onelayer_cuda::bits_of(value);
        return packed((unsigned)onelayer_warp(OL_MATCH, mask, bits, -1, line));
    }
    template <class T> T shfl(T value, int rank, ONELAYER_LINE) const {
        return onelayer_cuda::shuffle_words(mask, value, lane_of(rank % (int)size()), line);
    }
    template <class T> T shfl_up(T value, unsigned by, ONELAYER_LINE) const {
        return moved(value, (int)thread_rank() - (int)by, line);
    }
    template <class T> T shfl_down(T value, unsigned by, ONELAYER_LINE) const {
        return moved(value, (int)thread_rank() + (int)by, line);
    }

  protected:
    unsigned mask;

    // From the thread of that rank, or this thread's own value where there is none.
    template <class T> T moved(T value, int rank, int line) const {
        bool there = rank >= 0 && rank < (int)size();
        int source = there ? lane_of(rank) : onelayer_cuda::lane();
        return onelayer_cuda::shuffle_words(mask, value, source, line);
    }
    int lane_of(int rank) const {
        for (int lane = 0; lane < warpSize; lane++)
            if ((mask >> lane & 1) && rank-- == 0) return lane;
        return onelayer_cuda::lane();
    }
    unsigned packed(unsigned lanes) const {  // bit r is for the thread of rank r
        unsigned bits = 0, rank = 0;
        for (int lane = 0; lane < warpSize; lane++)
            if (mask >> lane & 1) bits |= (lanes >> lane & 1u) << rank++;
        return bits;
    }
};
inline coalesced_group coalesced_threads(ONELAYER_LINE) {
    return coalesced_group((unsigned)onelayer_warp(OL_ACTIVE, 0, 0, -1, line));
}

// `Size` neighbours of a block, a power of two.
template <unsigned Size, class Parent = void> class thread_block_tile : public coalesced_group {
    static_assert(Size && (Size & (Size - 1)) == 0, "the size of a tile is a power of two");
    static_assert(Size <= 32, "a tile of more than 32 threads is not possible here");

  public:
    thread_block_tile() : coalesced_group(all_lanes() << (onelayer_cuda::lane() & -(int)Size)) {}

    template <class Other> thread_block_tile(const thread_block_tile<Size, Other>&)
        : thread_block_tile() {}

    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
    static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
    static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
    template <class T> T shfl_xor(T value, unsigned with, ONELAYER_LINE) const {
        return moved(value, (int)(thread_rank() ^ with), line);
    }

  private:
    static constexpr unsigned all_lanes() { return Size == 32 ? ~0u : (1u << Size) - 1; }
};
template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}

template <class Group> void sync(const Group& group, ONELAYER_LINE) { group.sync(line); }

}  // namespace cooperative_groups
