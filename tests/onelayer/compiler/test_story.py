"""compile_story: what it says of a compiled function, against what torch itself says and keeps."""

import dis
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onelayer
from onelayer.compiler.guards import versions_of
from onelayer.compiler.story import CompileStory
from onelayer.recordings import read_recording
from onelayer.recordings.head_code import TOKENS, HeadCode, code_of, head_loss
from onelayer.recordings.provenance import provenance_here
from onelayer.recordings.storing import store

pytestmark = pytest.mark.compiler


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The generated code depends on the threads, and one of them is what the chapter compiles for:
    the C++ of the two is compiled once."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def inputs(n: int = TOKENS) -> tuple[torch.Tensor, ...]:
    head = onelayer.head()
    return torch.randn(n, 64), head.weight, head.bias, torch.randint(600, (n,))


@pytest.fixture(scope="module")
def given() -> tuple[torch.Tensor, ...]:
    return inputs()


@pytest.fixture(scope="module")
def story(given: Any) -> CompileStory:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    told = onelayer.compile_story(head_loss, *given)
    torch.set_num_threads(threads)
    return told


@pytest.fixture(scope="module")
def graphs() -> CompileStory:
    return onelayer.compile_story(head_loss, *inputs(7), backend="aot_eager")


def careful(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y.relu()


class TestCapture:
    def test_bytecode_is_what_dis_says(self, graphs: CompileStory) -> None:
        (frame,) = graphs.frames
        listed = [i.opname for i in dis.get_instructions(head_loss) if i.opname != "CACHE"]
        assert [one.name for one in frame.before] == listed
        assert any("__compiled_fn" in one.argument for one in frame.after)

    def test_as_many_calls_as_explain_counts(self, graphs: CompileStory) -> None:
        told = torch._dynamo.explain(head_loss)(*inputs(7))
        assert len(graphs.pieces) == told.graph_count
        captured = graphs.pieces[0].captured.calls
        functions = [n.target for n in told.graphs[0].graph.nodes if n.op.startswith("call_")]
        assert len(captured) == len(functions) == 3

    def test_each_node_knows_its_line(self, graphs: CompileStory) -> None:
        text = dict(graphs.lines)
        for node in graphs.pieces[0].captured.calls:
            assert node.line is not None
            assert node.target in text[node.line]

    def test_a_break_has_its_line_and_two_graphs(self) -> None:
        broken = onelayer.compile_story(careful, torch.ones(3), backend="aot_eager")
        assert len(broken.pieces) == 2
        (where,) = broken.breaks
        assert where.code == "if y.sum() > 0:"
        first = careful.__code__.co_firstlineno
        assert (where.line, where.file) == (first + 2, __file__)
        assert broken.frames[0].name == "careful"

    def test_fullgraph_refuses(self) -> None:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            onelayer.compile_story(careful, torch.ones(3), backend="aot_eager", fullgraph=True)

    def test_guards_name_what_they_are_about(self, graphs: CompileStory) -> None:
        sizes = [g.check for g in graphs.guards if g.kind == "TENSOR_MATCH"]
        assert len(sizes) == 4
        assert any("L['x']" in check and "size=[7, 64]" in check for check in sizes)

    def test_versions_are_counted(self) -> None:
        compiled = torch.compile(careful, backend="eager")
        compiled(torch.ones(3))
        one = versions_of(careful.__code__)
        compiled(torch.ones(3, dtype=torch.float64))
        assert (one, versions_of(careful.__code__)) == (1, 2)
        torch._dynamo.reset()
        assert versions_of(careful.__code__) == 0

    def test_a_size_that_moves_is_a_symbol(self) -> None:
        told = onelayer.compile_story(careful, torch.ones(3), backend="aot_eager", dynamic=True)
        shapes = [node.shape for node in told.pieces[0].captured.inputs if node.shape]
        assert shapes
        assert all(isinstance(shape[0], str) for shape in shapes)
        assert all(n.nbytes == 12 for n in told.pieces[0].captured.inputs if n.shape)


class TestJoint:
    def test_both_sides_are_in_it_and_backward_knows_its_call(self, graphs: CompileStory) -> None:
        joint = graphs.pieces[0].joint
        assert joint is not None
        assert {node.side for node in joint.calls} == {"forward", "backward"}
        products = [node for node in joint.calls if node.target.startswith("aten.mm")]
        assert products
        assert {node.origins for node in products} == {("z",)}

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_it_keeps_what_torch_keeps(self, story: Any, given: Any, backend: Any) -> None:
        """By another way: the hooks of saved tensors around an ordinary torch.compile."""
        told = story
        if backend == "aot_eager":
            told = onelayer.compile_story(head_loss, *given, backend="aot_eager")
        compiled = torch.compile(head_loss, backend=backend)
        with onelayer.count_saved(ignore=given) as saved:
            compiled(*given)
        assert told.pieces[0].saved_bytes == saved.bytes
        kinds = {kept.kind for kept in told.pieces[0].saved}
        assert kinds == {"input", "computed"}

    def test_a_kept_view_of_an_input_costs_nothing(self) -> None:
        def row(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x.gather(1, at[:, None]).sum()

        x, at = torch.randn(5, 6, requires_grad=True), torch.tensor([0, 5, 1, 1, 2])
        (piece,) = onelayer.compile_story(row, x, at, backend="aot_eager").pieces
        assert {kept.kind for kept in piece.saved} == {"view of an input"}
        assert piece.saved_bytes == 0

    def test_without_a_gradient_there_is_no_backward(self) -> None:
        (piece,) = onelayer.compile_story(torch.sin, torch.ones(3), backend="aot_eager").pieces
        assert (piece.joint, piece.backward, piece.saved) == (None, None, ())

    def test_no_grad_is_written(self, given: Any, story: Any) -> None:
        assert [t.grad for t in given] == [None] * 4


class TestGenerated:
    def test_the_file_is_the_one_that_torch_writes(self, story: Any, given: Any) -> None:
        from torch._inductor.utils import run_and_get_code

        _, files = run_and_get_code(torch.compile(head_loss), *given)
        file = story.pieces[0].forward_file
        kernels = [kernel for kernel in file.kernels if kernel.language == "C++"]
        assert kernels
        assert all(kernel.source in files[0] for kernel in kernels)
        plain = onelayer.read_inductor_file(files[0])
        assert [k.bytes for k in plain.kernels] == [k.bytes for k in file.kernels]

    def test_every_operator_is_in_a_kernel_or_a_view(self, story: Any) -> None:
        piece = story.pieces[0]
        for side in ("forward", "backward"):
            graph, file = getattr(piece, f"{side}_lowered"), getattr(piece, f"{side}_file")
            done = {name for kernel in file.kernels for name in kernel.nodes}
            assert not {node.name for node in graph.calls if not node.view} - done
            assert done <= {node.name for node in graph.calls}

    def test_bytes_of_the_forward_are_the_ones_on_paper(self, story: Any) -> None:
        """addmm reads x, W, b and writes the logits; the loss reads the logits once for its row
        sums, and looks up one of each row."""
        logits, rows = TOKENS * 600 * 4, TOKENS * 4
        product, loss = story.pieces[0].forward_file.kernels
        assert (product.language, loss.language) == ("library", "C++")
        assert product.bytes_read == TOKENS * 64 * 4 + 600 * 64 * 4 + 600 * 4
        assert product.bytes_written == logits
        first, second, _ = loss.loops
        assert (first.bytes_read, first.bytes_written) == (logits, 2 * rows)
        # two row sums, an int64 target, and one logit for each row
        assert second.bytes_read == 2 * rows + 2 * rows + rows

    def test_fewer_bytes_than_eager(self, story: Any, given: Any) -> None:
        with onelayer.count_traffic() as eager:
            torch.autograd.grad(head_loss(*given), given[1:3])
        piece = story.pieces[0]
        files = (piece.forward_file, piece.backward_file)
        assert sum(f.bytes_read + f.bytes_written for f in files) < eager.bytes / 2

    def test_it_prints_itself(self, story: Any) -> None:
        assert "head_loss: 1 graph, 0 graph breaks" in str(story)
        assert "extern_kernels.addmm" in str(story)

    def test_settings_are_as_before(self, story: Any) -> None:
        from torch._functorch import config as functorch
        from torch._inductor import config as inductor

        assert inductor.joint_custom_pre_pass is None
        assert inductor.trace.provenance_tracking_level == 0
        assert functorch.enable_autograd_cache


class TestRecording:
    def test_what_was_generated_can_be_recorded_and_read(
        self, story: CompileStory, tmp_path: Path
    ) -> None:
        """The same recorder as on a GPU: there the files hold Triton, here C++."""
        code = code_of(story)
        store("head_loss", code, provenance_here("cpu", "a trial"), tmp_path)
        read = read_recording("head_loss", folder=tmp_path)
        assert isinstance(read.content, HeadCode)
        assert set(read.content.files) == {"forward", "backward"}
        assert read.content.summary == code.summary
        assert tempfile.gettempdir() not in str(read)
        assert str(read.content.summary.splitlines()[0]) in read.bundle()["text/html"]

    def test_a_story_without_generated_code_is_refused(self, graphs: CompileStory) -> None:
        with pytest.raises(ValueError, match="no file of Inductor's"):
            code_of(graphs)


class TestCustomOperator:
    def test_it_is_one_node_and_one_library_kernel(self) -> None:
        @torch.library.custom_op("onelayer_tests::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(torch.empty_like)
        x = torch.randn(16, 64)
        (piece,) = onelayer.compile_story(twice, x, fullgraph=True).pieces
        assert piece.forward is not None
        assert piece.forward_file is not None
        assert [n.target for n in piece.forward.calls] == ["onelayer_tests.twice.default"]
        (kernel,) = piece.forward_file.kernels
        assert kernel.language == "library"
        assert (kernel.bytes_read, kernel.bytes_written) == (x.nbytes, x.nbytes)


class TestTraffic:
    def test_a_product_reads_both_and_writes_one(self) -> None:
        x, w = torch.randn(5, 64), torch.randn(600, 64)
        with onelayer.count_traffic() as traffic:
            z = F.linear(x, w)
        (op,) = traffic.ops
        assert op == ("aten::mm", x.nbytes + w.nbytes, z.nbytes)

    def test_a_view_moves_nothing(self) -> None:
        with onelayer.count_traffic() as traffic:
            torch.randn(4, 4).T.reshape(4, 2, 2)[0].detach()
        assert {op.name for op in traffic.ops} <= {"aten::randn", "aten::clone"}

    def test_in_place_reads_and_writes_and_a_copy_only_writes(self) -> None:
        x, y = torch.zeros(8), torch.ones(8)
        with onelayer.count_traffic() as traffic:
            x.add_(y)
            x.copy_(y)
        assert traffic.ops == [("aten::add_", 64, 32), ("aten::copy_", 32, 32)]

    def test_a_lookup_reads_what_it_looks_up(self) -> None:
        table, rows = torch.randn(600, 64), torch.tensor([1, 2, 3])
        with onelayer.count_traffic() as traffic:
            F.embedding(rows, table)
        (op,) = traffic.ops
        assert op.bytes_read == 3 * 64 * 4 + rows.nbytes

    def test_inference_mode_gives_the_same(self) -> None:
        x, w, b = torch.randn(5, 64), torch.randn(600, 64), torch.randn(600)
        with onelayer.count_traffic() as outside:
            F.linear(x, w, b)
        with torch.inference_mode(), onelayer.count_traffic() as inside:
            F.linear(x, w, b)
        assert inside.ops == outside.ops
