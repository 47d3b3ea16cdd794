"""CUDA on the CPU: what a `.cu` text says of itself, and what it becomes."""

from __future__ import annotations

import pytest

from onelayer.cuda_cpu.cuda_source import rewrite
from onelayer.cuda_cpu.declarations import declarators
from onelayer.cuda_cpu.signature import signatures
from onelayer.cuda_cpu.tokens import pieces, without_comments

NULL = "::onelayer_cuda::Null{}"
UNTOUCHED = [
    "// k<<<1, 2>>>(x)\n",
    "/* __shared__ float s[4]; */",
    'const char* s = "k<<<1, 2>>>(x) __shared__";',
    'auto s = R"(k<<<1, 2>>>(x))";',
    "int big = 1'000'000; char c = '<';",
    "__device__ __forceinline__ float f(float x) { return x; }",
    "__device__ float4 operator+(float4 a, float4 b);",
    "template <int N> __global__ void __launch_bounds__(256) k(float* x);",
    "#define BOUNDS __launch_bounds__(",
]


def body(text: str) -> str:
    """What the text itself becomes, without what is put before it."""
    return rewrite(text, "t.cu").text.split('#line 1 "t.cu"\n', 1)[1]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_what_is_no_launch_and_no_memory_stays_as_it_is(text: str) -> None:
    assert body(text) == text
    assert "".join(piece for _, piece in pieces(text)) == text


@pytest.mark.parametrize(
    ("launch", "becomes"),
    [
        ("k<<<1, 2>>>(x);", '"k", [&](auto... onelayer_x) ONELAYER_UNSEEN { k(onelayer_x...); }'),
        ("k<16, float><<<g, b>>>(x);", "{ k<16, float>(onelayer_x...); }"),
        ("a::k<<<g, b>>>(x);", "{ a::k(onelayer_x...); }"),
        ("if (n) k<<<dim3(1, (n + 3) / 4), b, n >> 1>>>();", "dim3(1, (n + 3) / 4), b, n >> 1)();"),
        (
            "k<<<1, 0>>>(NULL, /* no */ 0 , f(0), 10, x[0]);",
            f"1, 0)({NULL}, /* no */ {NULL} , f(0), 10, x[0]);",
        ),
        (
            "template <class T> __global__ void k(T x) {}\nint f() { k<int><<<1, 1>>>(0, NULL); }",
            f"1, 1)(0, {NULL});",
        ),
        ("k<<<1, 1>>>(0", "1, 1)(0"),
    ],
)
def test_a_launch_becomes_a_call(launch: str, becomes: str) -> None:
    assert becomes in body(launch)


@pytest.mark.parametrize(
    ("kernel", "most"),
    [
        ("__global__ void __launch_bounds__(64) k(float* x) { }", "64"),
        ("__launch_bounds__(2 * N, 1)\n__global__ void k(f<a, b> (*x)[3])\n{ }", "2 * N"),
        ("__global__ __launch_bounds__(most(1, 2), {4}) void k() { }", "most(1, 2)"),
    ],
)
def test_a_kernel_with_bounds_begins_with_a_look_at_them(kernel: str, most: str) -> None:
    start, end = kernel.split("{ }")
    assert body(kernel) == f"{start}{{ ::onelayer_launch_bounds({most}); }}{end}"


def test_every_line_keeps_its_number() -> None:
    text = (
        "__shared__ float\n a[4],\n b;\nextern __shared__\n float s[];\nk<<<\n1,\n2>>>\n(x);\nend"
    )
    assert body(text).splitlines()[-1] == "end"
    assert body(text).count("\n") == text.count("\n")
    assert without_comments("a // b\n/* c\n d */ e").count("\n") == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("__shared__ float s[16][17]", [("float", "s", "[16][17]")]),
        (
            "__shared__ unsigned int *p, q[2]",
            [("unsigned int*", "p", ""), ("unsigned int", "q", "[2]")],
        ),
        ("static __shared__ alignas(16) Pair<int, 2> x", [("Pair<int, 2>", "x", "")]),
        ("extern __shared__ __align__(16) volatile float s[]", [("volatile float", "s", "[]")]),
    ],
)
def test_a_declaration_is_taken_apart(text: str, wanted: list[tuple[str, str, str]]) -> None:
    found = declarators(text)
    assert found is not None
    assert [(d.base, d.name, d.suffix) for d in found] == wanted


def test_a_declaration_of_another_form_is_left_to_the_compiler() -> None:
    assert declarators("__shared__ float (*f)(int)") is None
    assert declarators("__shared__ struct { float a; } s") is None


def test_variables_of_the_device_are_told_from_its_functions() -> None:
    text = """
    __constant__ float c[4];
    __device__ int counter = 0;
    __device__ __constant__ float both[2] = {1, 2};
    __device__ float f(int n);
    template <class T> __device__ T g(T x) { __shared__ T s[4]; return s[0]; }
    """
    assert [p.declaration.split()[-1] for p in rewrite(text, "t.cu").places] == [
        "c[4]",
        "0",
        "2}",
        "s[4]",
    ]


def test_the_host_functions_are_those_that_are_exported() -> None:
    found = signatures("""
    int helper(int a) { return a; }
    extern "C" int one(const float* __restrict__ x, const __half *h, int n, float a,
                       cudaStream_t s) {
        if (n) { return helper(n); } else { return 0; }
    }
    extern "C" __global__ void kernel(float* x) { }
    extern "C" {
    static int mine(int a) { return a; }
    void two(unsigned char y[], double b = 1.0, bool c) { }
    // int commented(int a) {
    }
    void three(int n) { }
    """)
    kinds = {name: [(p.name, p.kind, p.of) for p in f.parameters] for name, f in found.items()}
    assert kinds == {
        "one": [
            *[("x", "pointer", "float"), ("h", "pointer", "__half"), ("n", "integer", "")],
            *[("a", "float", ""), ("s", "stream", "")],
        ],
        "two": [("y", "pointer", "unsigned char"), ("b", "double", ""), ("c", "bool", "")],
    }
    assert [found[name].result for name in ("one", "two")] == ["integer", "void"]
