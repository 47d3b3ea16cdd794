"""What the tests have the mocked device do. Each program runs in a process of its own and returns
plain facts; it imports what it needs, for it is loaded by the tests' process as well."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

MIB = 2**20


def in_turn(*programs: str) -> dict[str, Any]:
    """The facts of several programs, each a name and perhaps its argument after "=", that run in
    one process: loading torch takes longer than most of them. One that raises gives its error."""
    facts: dict[str, Any] = {}
    for program in programs:
        name, _, argument = program.partition("=")
        try:
            facts[program] = globals()[name](*([argument] if argument else []))
        except RuntimeError as error:
            facts[program] = f"{type(error).__name__}: {error}"
    return facts


def three_steps() -> dict[str, Any]:
    """Three AdamW steps of the head, on the device and on the CPU."""
    torch.manual_seed(0)
    head, twin = nn.Linear(64, 600), nn.Linear(64, 600)
    twin.load_state_dict(head.state_dict())
    head.cuda()
    x, t = torch.randn(32, 64), torch.randint(600, (32,))
    losses = []
    for layer, inputs in ((head, (x.cuda(), t.cuda())), (twin, (x, t))):
        optimizer = torch.optim.AdamW(layer.parameters())
        losses.append([_step(layer, optimizer, *inputs) for _ in range(3)])
    pairs = zip(head.parameters(), twin.parameters(), strict=True)
    same = [torch.equal(a.cpu(), b) for a, b in pairs]
    return {"losses": losses, "same": same, "weight": head.weight}


def _step(layer: nn.Module, optimizer: torch.optim.Optimizer, x: Any, t: Any) -> float:
    loss = F.cross_entropy(layer(x), t)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def allocator_rules() -> dict[str, Any]:
    """What the caching allocator reserves for requests of several sizes, and gives back."""
    facts: dict[str, Any] = {}
    for name, nbytes in (("small", 4096), ("middle", 2 * MIB), ("large", 32 * MIB)):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        x = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        facts[name] = torch.cuda.memory_reserved() - before, torch.cuda.memory_allocated()
        del x
    facts["kept"] = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    facts["emptied"] = torch.cuda.memory_reserved()
    free, total = torch.cuda.mem_get_info()
    return facts | {"free": free, "total": total}


def left_by_a_product(cache: str) -> dict[str, int]:
    """Bytes of cuBLAS's workspace beside a product's operands and result: in it, and after it.
    cache: what torch 2.15 is told about keeping it."""
    os.environ["TORCH_CUBLAS_WORKSPACE_CACHE"] = cache
    x = torch.empty(512, 512, device="cuda")
    y = x @ x
    beside = x.nbytes + y.nbytes
    at_the_peak, after = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    return {"at the peak": at_the_peak - beside, "after it": after - beside}


def out_of_memory_and_on() -> dict[str, Any]:
    """A request that cannot be met, and one after it that can once a cached block is given back."""
    cached = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")
    del cached  # cached, not free
    try:
        torch.empty(2048 * MIB, dtype=torch.uint8, device="cuda")
        said = ""
    except torch.OutOfMemoryError as error:
        said = str(error)
    x = torch.empty(900 * MIB, dtype=torch.uint8, device="cuda")
    return {
        "said": said,
        "then": x.nbytes,
        "ooms": torch.cuda.memory_stats()["num_ooms"],
    }


def profiled_step() -> None:
    """One step of the head, with a copy in, an operator and a number read."""
    layer = nn.Linear(64, 600).cuda()
    _step(layer, torch.optim.SGD(layer.parameters(), 0.1), *_batch())


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(32, 64).cuda(), torch.randint(600, (32,)).cuda()


def own_profiler() -> dict[str, Any]:
    """A program that profiles itself, and its table's totals."""
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(1 << 20, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as p:
        x.mul(2).sum()
        torch.cuda.synchronize()
    averages = p.key_averages()
    return {e.key: e.device_time_total for e in averages if e.device_time_total}


def streams_and_events() -> dict[str, Any]:
    """Work on two streams, an event between them, and what the clock says of it."""
    facts: dict[str, Any] = {}
    x = torch.zeros(64 << 20, device="cuda")  # 256 MiB: some 160 us to read and write
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(400):
        x.add_(1)
    end.record()
    facts["still at work"] = not end.query()
    side.wait_event(end)
    with torch.cuda.stream(side):
        x.add_(1)
    facts["side waits"] = not side.query()
    end.synchronize()
    facts["elapsed_ms"] = begin.elapsed_time(end)
    torch.cuda.synchronize()
    facts["done"] = side.query() and end.query()
    return facts


def copies() -> None:
    """Copies of 32 MiB from pageable and from pinned memory, in that order, then a tiny one."""
    pageable = torch.zeros(8 << 20)
    pinned = torch.zeros(8 << 20, pin_memory=True)
    torch.cuda.synchronize()
    pageable.to("cuda", non_blocking=True)
    pinned.to("cuda", non_blocking=True)
    torch.zeros(16).to("cuda", non_blocking=True)


def out_of_range() -> dict[str, Any]:
    """An index out of range: where is it said?"""
    table = torch.zeros(4, 2, device="cuda")
    wrong = torch.tensor([7], device="cuda")
    facts = {"launch": "", "synchronize": "", "after": ""}
    for name, act in (
        ("launch", lambda: table.index_select(0, wrong)),
        ("synchronize", torch.cuda.synchronize),
        ("after", lambda: torch.zeros(1, device="cuda")),
    ):
        try:
            act()
        except RuntimeError as error:
            facts[name] = str(error).splitlines()[0]
    return facts


def never_computed(kind: str) -> Any:
    """Reads a number that the CPU has no kernel for."""
    x = torch.ones(4, 64, 4, 64, device="cuda", dtype=torch.float16)
    out = torch.ops.aten._efficient_attention_forward(
        x, x, x, None, None, None, None, None, 0.0, 0, False
    )[0]
    if kind == "print":
        return repr(out[0, 0, 0, 0])
    if kind == "derived":
        return (out * 2).sum().item()
    return out.cpu() if kind == "copy" else out[0, 0, 0, 0].item()


def triton_kernel() -> float:
    """Reads what a kernel of Triton was to double."""
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    x = torch.ones(1000, device="cuda")
    double[(4,)](x, 1000, BLOCK=256)
    return x.sum().item()


def captured() -> dict[str, Any]:
    """A graph of a layer, replayed twice; and a wait inside a capture, which CUDA forbids."""
    layer, x = nn.Linear(64, 600).cuda(), torch.randn(32, 64, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        layer(x).relu()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(x).relu()
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    said = ""
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.sum().item()
    except RuntimeError as error:
        said = str(error.__context__ or error)  # the end of the capture fails as well
    return {"said": said}


def replayed_with_values() -> list[float]:
    """A graph that doubles what lies in its input, replayed on other numbers than it was captured
    with."""
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2).sum()
    numbers = []
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        numbers.append(y.item())
    return numbers


def two_devices() -> dict[str, Any]:
    """A tensor that travels between two devices, each of which keeps its own accounts."""
    before = [torch.cuda.memory_allocated(n) for n in range(2)]
    x = torch.arange(1000.0, device="cuda:0")
    y = x.to("cuda:1")
    return {
        "count": torch.cuda.device_count(),
        "allocated": [torch.cuda.memory_allocated(n) - before[n] for n in range(2)],
        "same": torch.equal(y.cpu(), torch.arange(1000.0)),
        "peer": torch.cuda.can_device_access_peer(0, 1),
    }


def two_threads(launches: int) -> int:
    """Launches from two threads at once."""
    x = torch.ones(16, device="cuda")
    threads = [threading.Thread(target=_launch, args=(x, launches)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    return 2 * launches


def _launch(x: torch.Tensor, launches: int) -> None:
    y = x.clone()
    for _ in range(launches):
        y.neg_()


def forked() -> str:
    """What a child says that was forked after CUDA began."""
    import os

    torch.ones(1, device="cuda")
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            torch.ones(1, device="cuda").neg_()
            os.write(writing, b"nothing")
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.wait()
    return os.read(reading, 1000).decode()


def killed_in_the_middle() -> None:
    """Dies as a process dies that the system kills."""
    import os
    import signal

    x = torch.ones(16, device="cuda")
    for _ in range(10_000):
        x.neg_()
    os.kill(os.getpid(), signal.SIGKILL)


def not_mocked() -> str:
    """Asks for a Fourier transform, whose library nobody mocked."""
    try:
        torch.fft.fft(torch.ones(8, device="cuda"))
    except RuntimeError as error:
        return str(error)
    return ""


def convolution() -> dict[str, Any]:
    """A convolution net's step, on the device and on the CPU."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
    x = torch.randn(4, 3, 8, 8)
    want = net(x).sum()
    got = net.cuda()(x.cuda()).sum()
    got.backward()
    return {"want": want.item(), "got": got.item()}


def sizes_from_numbers() -> dict[str, Any]:
    """Operators whose result's size is a number on the device."""
    x = torch.tensor([3.0, -1.0, 2.0, -5.0], device="cuda")
    y = x.clone()
    y[x < 0] = 0
    return {
        "nonzero": torch.nonzero(x > 0).flatten().tolist(),
        "mask": x[x > 0].tolist(),
        "select": torch.masked_select(x, x < 0).tolist(),
        "put": y.tolist(),
        "unique": torch.tensor([2, 1, 2], device="cuda").unique().tolist(),
    }


def replayed(sequences: tuple[tuple[tuple[Any, ...], ...], ...]) -> list[Any]:
    """What torch's allocator holds after each sequence of requests: of each segment, in the order
    of cudaMalloc, its stream, its pool and its blocks (bytes, bytes asked for, whether in use)."""
    torch.cuda.init()
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    found = []
    for requests in sequences:
        torch.cuda.empty_cache()
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(enabled="all", context=None, clear_history=True)
        held = _carried_out(requests, streams)
        found.append(_segments(torch.cuda.memory._snapshot(), streams))
        held.clear()
    return found


def _carried_out(
    requests: tuple[tuple[Any, ...], ...], streams: list[Any]
) -> dict[str, torch.Tensor]:
    held = {}
    for verb, *arguments in requests:
        if verb == "alloc":
            name, nbytes, stream = arguments
            with torch.cuda.stream(streams[stream]):
                held[name] = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        elif verb == "free":
            del held[arguments[0]]
        else:
            torch.cuda.empty_cache()
    return held


def _segments(snapshot: dict[str, Any], streams: list[Any]) -> list[Any]:
    trace = [line for line in snapshot["device_traces"][0] if line["action"] == "segment_alloc"]
    born = {line["addr"]: n for n, line in enumerate(trace)}  # the last one at an address
    number = {stream.cuda_stream: n for n, stream in enumerate(streams)}
    told = []
    for segment in sorted(snapshot["segments"], key=lambda s: born[s["address"]]):
        used = [(b, b["state"] != "inactive") for b in segment["blocks"]]
        blocks = [(b["size"], b["requested_size"] if busy else 0, busy) for b, busy in used]
        told.append((number[segment["stream"]], segment["segment_type"], blocks))
    return told
