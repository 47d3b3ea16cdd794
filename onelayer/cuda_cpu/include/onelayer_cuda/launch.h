// kernel<<<grid, block, shared, stream>>>(a, b) arrives here (by source.py) as
// Launch(line, "kernel", [&](auto... x) { kernel(x...); }, grid, block, shared, stream)(a, b):
// the arguments are copied once, and each CUDA thread calls with them.
#pragma once

extern "C" void onelayer_launch(int line, const char* name, dim3 grid, dim3 block,
                                size_t shared_bytes, void (*enter)(void*), void* bound);

// The first thing that a kernel with __launch_bounds__(most) does; cuda_source.py writes the call.
extern "C" void onelayer_launch_bounds(unsigned most);

namespace onelayer_cuda {
// What stands for NULL and 0 among a launch's arguments: the null of whatever the kernel asks for.
struct Null {
    template <class T> operator T() const { return T(); }
};

template <class Body> ONELAYER_UNSEEN void enter(void* body) { (*(Body*)body)(); }

template <class Call> struct Launch {
    int line;
    const char* name;
    Call call;
    dim3 grid, block;
    size_t shared_bytes;

    Launch(int line, const char* name, Call call, dim3 grid, dim3 block, size_t shared_bytes = 0,
           cudaStream_t = nullptr)
        : line(line), name(name), call(call), grid(grid), block(block),
          shared_bytes(shared_bytes) {}

    template <class... A> ONELAYER_UNSEEN void operator()(A... arguments) const {
        auto body = [&]() ONELAYER_UNSEEN { call(arguments...); };
        onelayer_launch(line, name, grid, block, shared_bytes, enter<decltype(body)>, &body);
    }
};
}  // namespace onelayer_cuda
