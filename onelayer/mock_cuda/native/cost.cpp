// The model of time: see cost.h.
#include "cost.h"

#include <cxxabi.h>

#include <cstring>
#include <unordered_map>

#include "device.h"

namespace mock {

constexpr double CHUNK = 65536;        // elements of a block of multi_tensor_apply_kernel
constexpr double PAGEABLE_SHARE = 0.5;  // a pageable copy goes through a staging buffer
constexpr Ns COPY_LATENCY = 1500;

Ns roofline(double bytes, double flops, Precision precision) {
    const Model& m = model();
    const double peaks[] = {m.fp64_flop_s, m.fp32_flop_s, m.tf32_flop_s, m.half_flop_s};
    double seconds = std::max(bytes / m.hbm_bytes_s, flops / peaks[precision]);
    return m.kernel_ns + Ns(seconds * 1e9);
}

Ns copy_time(cudaMemcpyKind kind, size_t bytes, bool pinned) {
    const Model& m = model();
    double speed = m.pcie_bytes_s * (pinned ? 1 : PAGEABLE_SHARE);
    if (kind == cudaMemcpyDeviceToDevice) speed = m.hbm_bytes_s / 2;  // read and written
    return COPY_LATENCY + Ns(double(bytes) / speed * 1e9);
}

// What a name says of a kernel: how its bytes follow from the launch.
struct Shape {
    enum { PER_ELEMENT, PER_CHUNK, PER_THREAD } rule = PER_THREAD;
    double arrays = 2, itemsize = 4;
};

// The size of the type that a name speaks of first: `CUDAFunctor_add<c10::Half>` is 2.
static double first_itemsize(const std::string& name) {
    static const std::pair<const char*, double> sizes[] = {
        {"double", 8}, {"long", 8}, {"float", 4}, {"int, ", 4}, {"Half", 2}, {"BFloat16", 2}, {"bool", 1}, {"char>", 1}};
    size_t from = std::min(name.find('<'), name.size()), first = std::string::npos;
    double found = 4;
    for (auto [word, size] : sizes)
        if (size_t at = name.find(word, from); at < first) first = at, found = size;
    return found;
}

static double number_after(const std::string& name, const char* word, double otherwise) {
    size_t at = name.find(word);
    return at == std::string::npos ? otherwise : atof(name.c_str() + at + strlen(word));
}

static Shape read_shape(const char* mangled) {
    int status = 1;
    char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    std::string name = status == 0 ? text : mangled;
    free(text);
    Shape shape;
    shape.itemsize = first_itemsize(name);
    if (name.find("multi_tensor_apply_kernel") != std::string::npos) {
        shape.rule = Shape::PER_CHUNK;
        shape.arrays = number_after(name, "ListMetadata<", 2);
    } else if (name.find("elementwise_kernel") != std::string::npos) {
        shape.rule = Shape::PER_ELEMENT;
        shape.arrays = number_after(name, "array<char*, ", number_after(name, "Array<char*, ", 3));
    }
    return shape;
}

double bytes_of_launch(const char* mangled, dim3 grid, dim3 block, void** arguments) {
    static std::unordered_map<const char*, Shape> known;
    auto [it, fresh] = known.try_emplace(mangled);
    if (fresh) it->second = read_shape(mangled);
    const Shape& shape = it->second;
    double blocks = double(grid.x) * grid.y * grid.z, threads = blocks * block.x * block.y * block.z;
    double elements = threads * 4;
    if (shape.rule == Shape::PER_CHUNK) elements = blocks * CHUNK;
    if (shape.rule == Shape::PER_ELEMENT && arguments) elements = *static_cast<int*>(arguments[0]);
    return elements * shape.arrays * shape.itemsize;
}

}  // namespace mock
