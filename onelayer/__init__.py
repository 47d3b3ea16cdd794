"""The looking glass: the grammar model and the instruments that look inside PyTorch.

What lives here: what a notebook imports to see storages, strides, graphs and bytes, and the small
trained language model whose head the course follows. What may not: anything that asks, judges or
grades.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from onelayer.quiet import keep_quiet as _keep_quiet

if TYPE_CHECKING:
    from onelayer import cuda_cpu as cuda_cpu
    from onelayer import model as model
    from onelayer.autograd.checkpoints import show_checkpoints as show_checkpoints
    from onelayer.autograd.graph_view import show_graph as show_graph
    from onelayer.autograd.saved_bytes import count_saved as count_saved
    from onelayer.compiler.compile_view import show_compile as show_compile
    from onelayer.compiler.cut_picture import show_cut as show_cut
    from onelayer.compiler.inductor_reader import read_inductor_file as read_inductor_file
    from onelayer.compiler.story import compile_story as compile_story
    from onelayer.compiler.unbuilt import inductor_source as inductor_source
    from onelayer.custom_op.cpp_op import lines_read as lines_read
    from onelayer.custom_op.cpp_op import load_cpp as load_cpp
    from onelayer.custom_op.promises import play_promises as play_promises
    from onelayer.custom_op.sectors import show_moved as show_moved
    from onelayer.custom_op.tiles import show_tiles as show_tiles
    from onelayer.custom_op.wheel import play_wheel as play_wheel
    from onelayer.dispatcher.call_view import show_call as show_call
    from onelayer.dispatcher.dispatch import key_set as key_set
    from onelayer.dispatcher.dispatch_picture import show_dispatch as show_dispatch
    from onelayer.dispatcher.dispatch_view import play_dispatch as play_dispatch
    from onelayer.dispatcher.stack import show_stack as show_stack
    from onelayer.distributed.collectives import record_collectives as record_collectives
    from onelayer.distributed.collectives_picture import show_collectives as show_collectives
    from onelayer.distributed.fake_group import fake_group as fake_group
    from onelayer.distributed.ranks import run_ranks as run_ranks
    from onelayer.distributed.ring_picture import show_ring as show_ring
    from onelayer.distributed.timeline import show_timeline as show_timeline
    from onelayer.drawing.bars import show_bars as show_bars
    from onelayer.drawing.curves import show_curves as show_curves
    from onelayer.memory.byte_count import count_bytes as count_bytes
    from onelayer.memory.fusion import play_fusion as play_fusion
    from onelayer.memory.page_faults import count_page_faults as count_page_faults
    from onelayer.memory.peak_bytes import peak_bytes as peak_bytes
    from onelayer.memory.regimes import show_regimes as show_regimes
    from onelayer.memory.segments_view import show_segments as show_segments
    from onelayer.memory.traffic import count_traffic as count_traffic
    from onelayer.mock_cuda.run import on_mock_gpu as on_mock_gpu
    from onelayer.model import grammar as grammar
    from onelayer.model.gpt import head as head
    from onelayer.model.gpt import hidden as hidden
    from onelayer.model.gpt import next_words as next_words
    from onelayer.precision.bits_view import show_bits as show_bits
    from onelayer.profiling.traces_view import show_traces as show_traces
    from onelayer.recordings import show_recording as show_recording
    from onelayer.recordings.mocked import mocked as mocked
    from onelayer.strides.storage_picture import show_storage as show_storage
    from onelayer.strides.strides_view import show_strides as show_strides
    from onelayer.triton_kernel.masks import play_masks as play_masks

# Public name -> where it lives. A name is imported when it is first used, so that `import onelayer`
# costs milliseconds and a process that only needs the model never loads matplotlib.
_HOMES = {
    "compile_story": "onelayer.compiler.story",
    "count_bytes": "onelayer.memory.byte_count",
    "count_page_faults": "onelayer.memory.page_faults",
    "count_saved": "onelayer.autograd.saved_bytes",
    "fake_group": "onelayer.distributed.fake_group",
    "count_traffic": "onelayer.memory.traffic",
    "head": "onelayer.model.gpt",
    "hidden": "onelayer.model.gpt",
    "inductor_source": "onelayer.compiler.unbuilt",
    "key_set": "onelayer.dispatcher.dispatch",
    "lines_read": "onelayer.custom_op.cpp_op",
    "load_cpp": "onelayer.custom_op.cpp_op",
    "mocked": "onelayer.recordings.mocked",
    "next_words": "onelayer.model.gpt",
    "on_mock_gpu": "onelayer.mock_cuda.run",
    "peak_bytes": "onelayer.memory.peak_bytes",
    "record_collectives": "onelayer.distributed.collectives",
    "read_inductor_file": "onelayer.compiler.inductor_reader",
    "run_ranks": "onelayer.distributed.ranks",
    "show_bars": "onelayer.drawing.bars",
    "show_bits": "onelayer.precision.bits_view",
    "show_call": "onelayer.dispatcher.call_view",
    "show_curves": "onelayer.drawing.curves",
    "play_dispatch": "onelayer.dispatcher.dispatch_view",
    "play_fusion": "onelayer.memory.fusion",
    "play_masks": "onelayer.triton_kernel.masks",
    "play_promises": "onelayer.custom_op.promises",
    "play_wheel": "onelayer.custom_op.wheel",
    "show_checkpoints": "onelayer.autograd.checkpoints",
    "show_collectives": "onelayer.distributed.collectives_picture",
    "show_compile": "onelayer.compiler.compile_view",
    "show_cut": "onelayer.compiler.cut_picture",
    "show_dispatch": "onelayer.dispatcher.dispatch_picture",
    "show_graph": "onelayer.autograd.graph_view",
    "show_moved": "onelayer.custom_op.sectors",
    "show_recording": "onelayer.recordings",
    "show_regimes": "onelayer.memory.regimes",
    "show_ring": "onelayer.distributed.ring_picture",
    "show_segments": "onelayer.memory.segments_view",
    "show_stack": "onelayer.dispatcher.stack",
    "show_storage": "onelayer.strides.storage_picture",
    "show_strides": "onelayer.strides.strides_view",
    "show_timeline": "onelayer.distributed.timeline",
    "show_tiles": "onelayer.custom_op.tiles",
    "show_traces": "onelayer.profiling.traces_view",
}

_keep_quiet()
# `onelayer.grammar` works without an import of its own.
_MODULES = {
    "cuda_cpu": "onelayer.cuda_cpu",
    "grammar": "onelayer.model.grammar",
    "model": "onelayer.model",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'onelayer' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
