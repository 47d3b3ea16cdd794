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
    from onelayer import grammar as grammar
    from onelayer import model as model
    from onelayer.byte_count import count_bytes as count_bytes
    from onelayer.compiler.inductor_file import read_inductor_file as read_inductor_file
    from onelayer.compiler.story import compile_story as compile_story
    from onelayer.compiler.unbuilt import inductor_source as inductor_source
    from onelayer.cpp_op import lines_read as lines_read
    from onelayer.cpp_op import load_cpp as load_cpp
    from onelayer.dispatch import key_set as key_set
    from onelayer.dispatch import show_dispatch as show_dispatch
    from onelayer.distributed.collectives import record_collectives as record_collectives
    from onelayer.distributed.fake_group import fake_group as fake_group
    from onelayer.distributed.ranks import run_ranks as run_ranks
    from onelayer.model import head as head
    from onelayer.model import hidden as hidden
    from onelayer.model import next_words as next_words
    from onelayer.peak_bytes import peak_bytes as peak_bytes
    from onelayer.recordings import show_recording as show_recording
    from onelayer.saved_bytes import count_saved as count_saved
    from onelayer.storage import show_storage as show_storage
    from onelayer.traffic import count_traffic as count_traffic
    from onelayer.views.bars import show_bars as show_bars
    from onelayer.views.call import show_call as show_call
    from onelayer.views.checkpoints import show_checkpoints as show_checkpoints
    from onelayer.views.compile import show_compile as show_compile
    from onelayer.views.dispatch import play_dispatch as play_dispatch
    from onelayer.views.graph import show_graph as show_graph
    from onelayer.views.strides import show_strides as show_strides
    from onelayer.views.tiles import show_tiles as show_tiles
    from onelayer.views.timeline import show_timeline as show_timeline

# Public name -> where it lives. A name is imported when it is first used, so that `import onelayer`
# costs milliseconds and a process that only needs the model never loads matplotlib.
_HOMES = {
    "compile_story": "onelayer.compiler.story",
    "count_bytes": "onelayer.byte_count",
    "count_saved": "onelayer.saved_bytes",
    "fake_group": "onelayer.distributed.fake_group",
    "count_traffic": "onelayer.traffic",
    "head": "onelayer.model",
    "hidden": "onelayer.model",
    "inductor_source": "onelayer.compiler.unbuilt",
    "key_set": "onelayer.dispatch",
    "lines_read": "onelayer.cpp_op",
    "load_cpp": "onelayer.cpp_op",
    "next_words": "onelayer.model",
    "peak_bytes": "onelayer.peak_bytes",
    "record_collectives": "onelayer.distributed.collectives",
    "read_inductor_file": "onelayer.compiler.inductor_file",
    "run_ranks": "onelayer.distributed.ranks",
    "show_bars": "onelayer.views.bars",
    "show_call": "onelayer.views.call",
    "play_dispatch": "onelayer.views.dispatch",
    "show_checkpoints": "onelayer.views.checkpoints",
    "show_compile": "onelayer.views.compile",
    "show_dispatch": "onelayer.dispatch",
    "show_graph": "onelayer.views.graph",
    "show_recording": "onelayer.recordings",
    "show_storage": "onelayer.storage",
    "show_strides": "onelayer.views.strides",
    "show_timeline": "onelayer.views.timeline",
    "show_tiles": "onelayer.views.tiles",
}

_keep_quiet()
_MODULES = {"cuda_cpu", "grammar", "model"}  # `onelayer.grammar` works without an import of its own

__all__ = [
    "compile_story",
    "count_bytes",
    "count_saved",
    "count_traffic",
    "fake_group",
    "head",
    "hidden",
    "inductor_source",
    "key_set",
    "lines_read",
    "load_cpp",
    "next_words",
    "peak_bytes",
    "play_dispatch",
    "read_inductor_file",
    "record_collectives",
    "run_ranks",
    "show_bars",
    "show_call",
    "show_checkpoints",
    "show_compile",
    "show_dispatch",
    "show_graph",
    "show_recording",
    "show_storage",
    "show_strides",
    "show_tiles",
    "show_timeline",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"onelayer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'onelayer' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
