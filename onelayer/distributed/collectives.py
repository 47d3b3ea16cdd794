"""Records what a rank computes and sends, from the dispatcher, where `c10d` has its operators."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group as resolve
from torch.utils._python_dispatch import TorchDispatchMode

from onelayer.distributed.rank_log import Collective, Computed, RankLog, ring_bytes
from onelayer.memory.byte_count import storages, tensors

from .socket_bytes import written_bytes

_JOIN_MS = 0.05  # operators closer than this are one bar of a timeline
_OPERATORS = {
    "all_reduce": "allreduce allreduce_coalesced all_reduce all_reduce_coalesced",
    "all_gather": "allgather _allgather_base allgather_coalesced allgather_into_tensor_coalesced "
    "all_gather_into_tensor all_gather_into_tensor_out all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter _reduce_scatter_base reduce_scatter_tensor "
    "reduce_scatter_tensor_out reduce_scatter_tensor_coalesced",
    "all_to_all": "alltoall alltoall_base all_to_all_single",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send isend",
    "recv": "recv recv_any_source irecv",
    "barrier": "barrier monitored_barrier",
}
_NAMES = {operator: name for name, all_of in _OPERATORS.items() for operator in all_of.split()}
"""An operator of `c10d` or `_c10d_functional`, without its last `_` -> the collective's name."""

_WRAPPERS = {"DTensor", "AsyncCollectiveTensor"}  # importing them takes longer than asking


@contextlib.contextmanager
def record_collectives() -> Iterator[RankLog]:
    """Records this rank's collectives, the operators between them, and the bytes that left.

        def step():
            with onelayer.record_collectives() as log:
                model(x).sum().backward()
            return log                          # plain data: it travels
        logs = onelayer.run_ranks(4, step)

    It stands in the dispatcher, where `c10d` has an operator for each collective. So it sees those
    that C++ calls as well: DDP's reducer, `fully_shard`, DTensor, point-to-point sends; on gloo,
    NCCL and the fake group alike. It does not see what runs on threads of yours, what a store does
    while the ranks meet, or the inside of a compiled graph. A wait is seen where Python waits, not
    where the reducer does. On a GPU the times are those of the launch, and no end is seen.

    `sent_bytes` is counted below all that, by the operating system, over TCP: for gloo on Linux.
    """
    in_group = dist.is_initialized()
    log = RankLog(dist.get_rank(), str(dist.get_backend())) if in_group else RankLog(0, "none")
    before = written_bytes() if log.backend == "gloo" else None
    mode = _Recorder(log)
    with _noting_waits(mode), mode:
        yield log
    after = written_bytes() if log.backend == "gloo" else None
    if before is not None and after is not None:
        log.sent_bytes = after - before


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes into a log. works: each Work that was handed out, so that its wait is recognised;
    results: of functional collectives, by storage."""

    def __init__(self, log: RankLog) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log = log
        self.works: list[tuple[Any, Collective]] = []
        self.results: dict[int, Collective] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__name__ in _WRAPPERS for kind in types):
            return NotImplemented  # such a tensor takes itself apart, and its parts come here
        started = _now_ms()
        result = func(*args, **(kwargs or {}))
        space, _, name = func._schema.name.partition("::")
        if space == "c10d":
            self._collective(name, args, result, started)
        elif space == "_c10d_functional":
            self._functional(name, args, result, started)
        elif space != "profiler":
            self._computed(name, started)
        return result

    def _collective(self, name: str, args: tuple[Any, ...], result: Any, started: float) -> None:
        call = _called(name, args, started)
        if call is None:
            return
        self.log.collectives.append(call)
        outs = result if isinstance(result, (tuple, list)) else [result]
        for work in (dist.Work.unbox(o) for o in outs if isinstance(o, torch.ScriptObject)):
            self.works.append((work, call))
            _note_the_end(work, call)

    def _functional(self, name: str, args: tuple[Any, ...], result: Any, started: float) -> None:
        if name == "wait_tensor":
            for storage in storages(args[0]):
                if call := self.results.pop(storage._cdata, None):
                    call.waited_ms = (started, _now_ms())
                    call.ended_ms = call.waited_ms[1] if call.device == "cpu" else None
        elif call := _called(name, (*args, result), started):
            self.log.collectives.append(call)
            self.results |= dict.fromkeys((s._cdata for s in storages(result)), call)

    def waited(self, work: Any, started: float) -> None:
        """Notes that Python has waited for `work` since `started`."""
        ended = _now_ms()
        for known, call in self.works:
            if known is work and call.waited_ms is None:  # a second wait is over at once
                call.waited_ms = (started, ended)
                if call.ended_ms is None and call.device == "cpu":
                    call.ended_ms = ended

    def _computed(self, name: str, started: float) -> None:
        ended, bars = _now_ms(), self.log.compute
        if bars and started - bars[-1].ended_ms < _JOIN_MS:
            bars[-1].ended_ms = ended
            bars[-1].operators += 1
        else:
            bars.append(Computed(name, 1, started, ended))


_WAIT = dist.Work.wait
_NOTING: list[tuple[int, _Recorder]] = []  # who wants to know of which thread's waits
_CHANGES = threading.Lock()


@contextlib.contextmanager
def _noting_waits(mode: _Recorder) -> Iterator[None]:
    """While it lasts, a `Work.wait()` of this thread tells `mode`."""
    mine = (threading.get_ident(), mode)
    with _CHANGES:
        _NOTING.append(mine)
        dist.Work.wait = _noted_wait  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        with _CHANGES:
            _NOTING.remove(mine)
            if not _NOTING:
                dist.Work.wait = _WAIT  # type: ignore[method-assign]


def _noted_wait(work: Any, *args: Any, **kwargs: Any) -> Any:
    started = _now_ms()
    done = _WAIT(work, *args, **kwargs)
    for thread, mode in list(_NOTING):
        if thread == threading.get_ident():
            mode.waited(work, started)
    return done


def _called(name: str, arguments: tuple[Any, ...], started: float) -> Collective | None:
    """The record of an operator that is a collective; None for one that is not."""
    known = _NAMES.get(name.removesuffix("_"))
    if known is None:
        return None
    group = next((group for group in map(_group, arguments) if group is not None), None)
    ranks = 1 if group is None else int(group.size())
    nbytes = 0 if known == "barrier" else _whole_bytes(known, arguments, ranks)
    return Collective(
        name=known,
        bytes=nbytes,
        ring_bytes=ring_bytes(known, nbytes, ranks),
        ranks=ranks,
        device=next((t.device.type for t in tensors(arguments)), "cpu"),
        thread=threading.current_thread().name,
        started_ms=started,
    )


def _whole_bytes(name: str, arguments: Any, ranks: int) -> int:
    """The bytes of the whole tensor: an argument holds all of it or one rank's part."""
    sizes = [sum(t.nbytes for t in tensors(argument)) for argument in arguments]
    if name in ("gather", "scatter"):  # all of it is on one rank only
        return ranks * min((size for size in sizes if size), default=0)
    return max(sizes, default=0)


def _group(argument: Any) -> Any:
    """The process group that an argument is or names, or None for another kind of argument."""
    try:
        if isinstance(argument, str):
            return resolve(argument)  # type: ignore[arg-type]
        if isinstance(argument, torch.ScriptObject):
            return dist.ProcessGroup.unbox(argument)
    except (RuntimeError, TypeError, ValueError):  # a reduction
        return None
    return argument if isinstance(argument, dist.ProcessGroup) else None


def _note_the_end(work: Any, call: Collective) -> None:
    """Has the group's own thread write down when it is done; on a GPU, it would do so at once."""
    if call.device != "cpu":
        return
    with contextlib.suppress(RuntimeError):  # gloo's reduce-scatter has no future
        work.get_future().add_done_callback(lambda _: setattr(call, "ended_ms", _now_ms()))


def _now_ms() -> float:
    return time.monotonic() * 1e3
