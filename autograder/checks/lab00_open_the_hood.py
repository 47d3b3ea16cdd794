"""Lab 00, open the hood: what is asked, what is true, what goes wrong.

Parameters, bytes and FLOPs are counted on torch's own layer, on the meta device; devices are asked
of torch's fake tensors, which follow a GPU's rules without a GPU.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import onelayer
from autograder.judge import Draw, Lab, Student, Wrong, describe, expect_close, expect_equal

lab = Lab("00_open_the_hood", "Open the hood")

Sizes = tuple[int, ...]
Place = tuple[str, Sizes]  # where a tensor is, and its shape


@lab.question(
    "head_parameters",
    points=1,
    minutes=3,
    difficulty=1,
    hints=(
        "The layer holds two tensors. `head.weight.shape` and `head.bias.shape` show them.",
        "The weight has a row of D numbers for each of the V words. What has the bias?",
        "return v * d + v",
    ),
)
def head_parameters(student: Student, draw: Draw) -> None:
    """How many numbers nn.Linear(d, v) learns.

    d features in, v words out -> int.
    """
    for d, v in [(64, 600), (3, 5), (1, 1), *_sizes(draw)]:
        want = sum(p.numel() for p in _layer(d, v).parameters())
        expect_equal(student.call("head_parameters", d, v), want)


def _sizes(draw: Draw) -> list[Sizes]:
    return [(draw.integer(2, 90), draw.integer(100, 900)) for _ in draw.cases(3)]


def _layer(d: int, v: int, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """torch's own layer, with sizes and without numbers."""
    return nn.Linear(d, v, device="meta", dtype=dtype)


@head_parameters.wrong(
    "bias_forgotten",
    "This is the weight alone. Each word also has a bias, one number that is added to its logit.",
)
def _(d: int, v: int) -> int:
    return v * d


@head_parameters.wrong(
    "bias_of_the_input",
    "The bias is added to the result, so it has one number per word, not one per feature.",
)
def _(d: int, v: int) -> int:
    return v * d + d


@head_parameters.wrong(
    "sizes_added",
    "The weight is a table with v rows of d numbers: its sizes multiply.",
)
def _(d: int, v: int) -> int:
    return v + d


@head_parameters.wrong("in_bytes", "These are bytes. Count numbers: a float32 takes 4 bytes.")
def _(d: int, v: int) -> int:
    return 4 * (v * d + v)


@head_parameters.cost
def _(student: Student, draw: Draw) -> str:
    count, model = student.call("head_parameters", 64, 600), onelayer.model.trained()
    every = sum(p.numel() for p in model.parameters())
    return f"{count:,} of the model's {every:,} parameters, {count / every:.0%}, sit in its head"


SENTENCES = (
    "<en> she has eaten <es> ella ha",
    "<en> she has eaten <es> ella",
    "<es> ellos han hablado <en> they have",
    "<en> I will drink <es> yo",  # its largest logit of all is not in its last row
)


@lab.question(
    "next_word",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "One row of W belongs to each word. Which row of h knows the whole sentence?",
        "The logits of the last position are W @ h[-1] + b. The next word is where they are "
        "largest.",
        "return words[(W @ h[-1] + b).argmax()]",
    ),
)
def next_word(student: Student, draw: Draw) -> None:
    """The word that the head finds likeliest after the last position.

    h (T, D) hidden states, W (V, D), b (V,), words (list of V) -> one of the words.
    """
    head, tokens = onelayer.head(), list(onelayer.grammar.TOKENS)
    weight, bias = head.weight.detach(), head.bias.detach()
    for text in SENTENCES:
        h = onelayer.hidden(text)
        got = student.call("next_word", h, weight, bias, tokens)
        expect_equal(got, _likeliest(h, weight, bias, tokens))
    for _ in draw.cases(3):
        h, weight = draw.tensor(draw.integer(2, 6), 8), draw.tensor(12, 8)
        words = [f"word{k}" for k in draw.shuffled(range(12))]
        favoured = draw.integer(0, 11)  # whatever h says, this word's bias decides
        bias = torch.zeros(12).index_fill(0, torch.tensor([favoured]), 100.0)
        for b in (torch.zeros(12), bias):
            got = student.call("next_word", h, weight, b, words)
            expect_equal(got, _likeliest(h, weight, b, words))


def _likeliest(h: torch.Tensor, w: torch.Tensor, b: torch.Tensor, words: list[str]) -> str:
    """The slow definition: one word after the other, one product after the other."""
    last = h[-1].tolist()
    logits = [
        sum(x * y for x, y in zip(row, last, strict=True)) + bias
        for row, bias in zip(w.tolist(), b.tolist(), strict=True)
    ]
    return words[max(range(len(words)), key=logits.__getitem__)]


@next_word.wrong(
    "first_position",
    "You read the first row of h. That position has seen one word only; the last one has seen all.",
)
def _(h: torch.Tensor, W: torch.Tensor, b: torch.Tensor, words: list[str]) -> str:
    return words[int((W @ h[0] + b).argmax())]


@next_word.wrong(
    "bias_forgotten",
    "The products are right and the bias is missing. It can turn the decision.",
)
def _(h: torch.Tensor, W: torch.Tensor, b: torch.Tensor, words: list[str]) -> str:
    return words[int((W @ h[-1]).argmax())]


@next_word.wrong(
    "largest_of_all_positions",
    "This is the largest logit of the whole sentence. Each row predicts the word after its own "
    "position: take the last row first.",
)
def _(h: torch.Tensor, W: torch.Tensor, b: torch.Tensor, words: list[str]) -> str:
    return words[int((h @ W.T + b).argmax()) % len(words)]


@next_word.wrong(
    "smallest_logit", "This is the unlikeliest word: the logit wants to be large, not small."
)
def _(h: torch.Tensor, W: torch.Tensor, b: torch.Tensor, words: list[str]) -> str:
    return words[int((W @ h[-1] + b).argmin())]


@next_word.wrong("index_returned", "This is the row's number. The word stands in `words[number]`.")
def _(h: torch.Tensor, W: torch.Tensor, b: torch.Tensor, words: list[str]) -> int:
    return int((W @ h[-1] + b).argmax())


@next_word.cost
def _(student: Student, draw: Draw) -> str:
    head, text = onelayer.head(), SENTENCES[0]
    given = (onelayer.hidden(text), head.weight.detach(), head.bias.detach())
    word = student.call("next_word", *given, list(onelayer.grammar.TOKENS))
    return f"{head.weight.numel():,} multiplications to say {word!r} after {text!r}"


@lab.question(
    "head_bytes",
    points=2,
    minutes=6,
    difficulty=1,
    hints=(
        "Four tensors take part: three are read, one is written. What are their shapes?",
        "x has n * d numbers, the weight v * d, the bias v, the result n * v; each takes "
        "itemsize bytes. The weight is counted once, however many tokens there are.",
        "return (n * d + v * d + v + n * v) * itemsize",
    ),
)
def head_bytes(student: Student, draw: Draw) -> None:
    """The bytes that one forward of the head must move: its inputs read once, its result written
    once.

    n tokens, d, v, itemsize (bytes per number) -> int.
    """
    drawn = [(draw.integer(2, 99), *size) for size in _sizes(draw)]
    for n, d, v in [(32, 64, 600), (1, 64, 600), (5, 3, 7), (0, 4, 6), *drawn]:
        for dtype in (torch.float32, torch.bfloat16):
            got = student.call("head_bytes", n, d, v, dtype.itemsize)
            expect_equal(got, _moved(n, d, v, dtype))


def _moved(n: int, d: int, v: int, dtype: torch.dtype) -> int:
    layer, x = _layer(d, v, dtype), torch.empty(n, d, device="meta", dtype=dtype)
    return sum(int(t.nbytes) for t in (x, *layer.parameters(), layer(x)))


@head_bytes.wrong(
    "result_not_written",
    "The result is missing: n rows of v logits are written to memory, and they are the largest "
    "part as n grows.",
)
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return (n * d + v * d + v) * itemsize


@head_bytes.wrong(
    "weight_for_each_token",
    "The weight is charged once per token. A matrix product needs it once for the whole batch: "
    "that is what batches are for.",
)
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return (n * d + n * v * d + v + n * v) * itemsize


@head_bytes.wrong("bias_forgotten", "The bias is missing: v more numbers are read.")
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return (n * d + v * d + n * v) * itemsize


@head_bytes.wrong("in_numbers", "These are numbers. Each of them takes `itemsize` bytes.")
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return n * d + v * d + v + n * v


@head_bytes.wrong(
    "always_four", "Right for float32. Half precision takes 2 bytes: use `itemsize`, not 4."
)
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return (n * d + v * d + v + n * v) * 4


@head_bytes.cost
def _(student: Student, draw: Draw) -> str:
    total = student.call("head_bytes", 32, 64, 600, 4)
    weight = _layer(64, 600).weight.nbytes
    return f"batch 32 in fp32: {total:,} bytes, of which the weight alone is {weight / total:.0%}"


@lab.question(
    "head_flops",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "How many multiplications does one logit take? And how many logits are there?",
        "One logit is a dot product of d numbers: d multiplications and d additions. There are "
        "n * v logits.",
        "return 2 * n * d * v",
    ),
)
def head_flops(student: Student, draw: Draw) -> None:
    """The floating-point operations of the head's matrix product, counted as torch counts them.

    n tokens, d, v -> int. A multiplication is one, an addition is one; the bias is not counted.
    """
    drawn = [(draw.integer(2, 99), *size) for size in _sizes(draw)]
    for n, d, v in [(32, 64, 600), (1, 64, 600), (5, 3, 7), *drawn]:
        expect_equal(student.call("head_flops", n, d, v), _flops(n, d, v))


def _flops(n: int, d: int, v: int) -> int:
    with FlopCounterMode(display=False) as counted:
        _layer(d, v)(torch.empty(n, d, device="meta"))
    return int(counted.get_total_flops())


@head_flops.wrong(
    "multiply_add_as_one",
    "This counts a multiplication and its addition as one. torch counts them as two, and so do "
    "the numbers on a GPU's data sheet.",
)
def _(n: int, d: int, v: int) -> int:
    return n * d * v


@head_flops.wrong(
    "bias_counted",
    "This adds one operation per logit for the bias. It is real work, but torch's count leaves it "
    "out: only the matrix product counts here.",
)
def _(n: int, d: int, v: int) -> int:
    return 2 * n * d * v + n * v


@head_flops.wrong(
    "first_addition_not_counted",
    "A sum of d products needs d - 1 additions, true. The custom is to count d: each product is "
    "added to something.",
)
def _(n: int, d: int, v: int) -> int:
    return n * v * (2 * d - 1)


@head_flops.wrong(
    "one_token", "This is the work for one token. Each of the n tokens has its own v logits."
)
def _(n: int, d: int, v: int) -> int:
    return 2 * d * v


@head_flops.wrong(
    "backward_included",
    "This is forward and backward together. Backward does two more products of the same size; "
    "here only forward is asked.",
)
def _(n: int, d: int, v: int) -> int:
    return 6 * n * d * v


@head_flops.cost
def _(student: Student, draw: Draw) -> str:
    one, batch = (student.call("head_flops", n, 64, 600) for n in (1, 32))
    return f"{one:,} FLOPs for one token, {batch / 1e6:.2f} MFLOP for a batch of 32"


@lab.question(
    "flops_per_byte",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "Two numbers that you have counted already, one divided by the other.",
        "The FLOPs of 0.4 divided by the bytes of 0.3. Write both out in this cell.",
        "return 2 * n * d * v / ((n * d + v * d + v + n * v) * itemsize)",
    ),
)
def flops_per_byte(student: Student, draw: Draw) -> None:
    """The arithmetic intensity of the head: floating-point operations per byte moved.

    n tokens, d, v, itemsize -> float.
    """
    drawn = [(draw.integer(2, 99), *size) for size in _sizes(draw)]
    for n, d, v in [(32, 64, 600), (1, 64, 600), (4096, 64, 600), *drawn]:
        for dtype in (torch.float32, torch.bfloat16):
            want = _flops(n, d, v) / _moved(n, d, v, dtype)
            got = student.call("flops_per_byte", n, d, v, dtype.itemsize)
            _expect_number(got, want)


def _expect_number(got: object, want: float) -> None:
    """A float within rounding of `want`, however the operations were ordered."""
    near = isinstance(got, (int, float)) and abs(got - want) <= 1e-9 * want
    expect_equal(want if near else got, want)


@flops_per_byte.wrong(
    "upside_down", "This is bytes per FLOP. Intensity is work per byte: divide the other way."
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return (n * d + v * d + v + n * v) * itemsize / (2 * n * d * v)


@flops_per_byte.wrong(
    "per_number", "This is FLOPs per number. A number takes `itemsize` bytes, so divide by it too."
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return 2 * n * d * v / (n * d + v * d + v + n * v)


@flops_per_byte.wrong(
    "weight_for_each_token",
    "The weight is charged once per token here. It is read once for the whole batch, and that is "
    "why intensity grows with n.",
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return 2 * n * d * v / ((n * d + n * v * d + v + n * v) * itemsize)


@flops_per_byte.wrong(
    "weight_only",
    "Only the weight's bytes are counted. The tokens and the logits travel too, and with a large "
    "batch they are nearly everything.",
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return 2 * n * d * v / (v * d * itemsize)


@flops_per_byte.cost
def _(student: Student, draw: Draw) -> str:
    counts = [student.call("flops_per_byte", n, 64, 600, 4) for n in (1, 32, 10**9)]
    one, batch, limit = (f"{count:.1f}" for count in counts)
    return f"{one} FLOPs per byte for one token, {batch} at batch 32, and never above {limit}"


@lab.question(
    "loss_by_hand",
    points=4,
    minutes=12,
    difficulty=2,
    hints=(
        "What probability does a row give to the right word? How surprised is one who believed "
        "that?",
        "A row's loss is log(sum of exp(z)) - z[right word]. exp overflows above 88 in float32: "
        "take the row's maximum out of it first and add it back behind the log.",
        "m = z.max(); loss = m + (z - m).exp().sum().log() - z[right]",
    ),
)
def loss_by_hand(student: Student, draw: Draw) -> None:
    """The mean surprise over the right words: -log of the probability that each row gives to its
    own, averaged over the rows.

    logits (N, V), targets (N,) int64 -> tensor of shape ().
    """
    large = [draw.tensor(6, 9) + shift for shift in (1000.0, -1000.0)]
    drawn = [draw.tensor(draw.integer(2, 30), 600) for _ in draw.cases(2)]
    for logits in (draw.tensor(1, 5), draw.tensor(4, 7), *large, *drawn):
        n, v = logits.shape
        targets = draw.integers(n, low=1, high=v - 1)
        want = F.cross_entropy(logits.double(), targets).float()
        got = student.call("loss_by_hand", logits, targets)
        _expect_finite(got, want)
        expect_close(got, want, tolerance=1e-4)


NOT_FINITE = (
    "The loss is not finite here. exp of a large logit is infinite in float32, exp of a very "
    "negative one is 0: subtract each row's maximum first."
)


def _expect_finite(got: object, want: torch.Tensor) -> None:
    if isinstance(got, torch.Tensor) and got.numel() == 1 and not bool(got.isfinite().all()):
        raise Wrong(expected=f"{want.item():.6g}", got=f"{got.item():.6g}", why=NOT_FINITE)


def _surprises(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(1)[torch.arange(len(targets)), targets]


@loss_by_hand.wrong("overflows", NOT_FINITE)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    e = logits.exp()
    return -(e[torch.arange(len(targets)), targets] / e.sum(1)).log().mean()


@loss_by_hand.wrong(
    "summed", "The surprises are right and added up. The mean does not grow with the batch."
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return _surprises(logits, targets).sum()


@loss_by_hand.wrong(
    "sign", "The sign is turned: a log of a probability is negative, a loss is its negative."
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -_surprises(logits, targets).mean()


@loss_by_hand.wrong(
    "log_of_the_mean",
    "This is the surprise at the mean probability. Take each row's log first, then the mean.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -_surprises(logits, targets).neg().exp().mean().log()


@loss_by_hand.wrong(
    "one_minus_p",
    "This is one minus the probability. A loss grows without limit as the probability goes to 0: "
    "take -log(p).",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (1 - _surprises(logits, targets).neg().exp()).mean()


@loss_by_hand.wrong("in_bits", "This is in bits. torch uses the natural logarithm.")
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return _surprises(logits, targets).mean() / torch.tensor(2.0).log()


@loss_by_hand.wrong(
    "softmax_over_tokens",
    "The probabilities sum to 1 over the tokens here. Each row is one guess: sum over dim 1, the "
    "words.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(0)[torch.arange(len(targets)), targets].mean()


@loss_by_hand.cost
def _(student: Student, draw: Draw) -> str:
    words = onelayer.grammar.encode(SENTENCES[0] + " comido")
    logits = onelayer.head()(onelayer.hidden(SENTENCES[0])).detach()  # (7, 600)
    loss = float(student.call("loss_by_hand", logits, torch.tensor(words[1:])))
    clueless = float(student.call("loss_by_hand", torch.zeros(1, 600), torch.tensor([0])))
    return (
        f"{loss:.2f} per word for the trained head on {SENTENCES[0] + ' comido'!r}; one that "
        f"knows nothing has {clueless:.2f}"
    )


@lab.question(
    "device_of_sum",
    points=2,
    minutes=7,
    difficulty=2,
    hints=(
        "PyTorch moves nothing for you, with one small exception. Which tensor is small enough?",
        "The same device: that one. Different devices: only a CPU tensor of shape () may join, "
        "and the result is where the other one is. A shape of (1,) is no exception.",
        'if a[0] == b[0]: return a[0]; if ("cpu", ()) in (a, b): return "cuda"; return None',
    ),
)
def device_of_sum(student: Student, draw: Draw) -> None:
    """Where `a + b` lives, or None where PyTorch refuses to add them.

    a, b: (device, shape), with device "cpu" or "cuda" -> "cpu", "cuda" or None.
    """
    for a, b in [*_PAIRS, *((_place(draw), _place(draw)) for _ in draw.cases(8))]:
        expect_equal(student.call("device_of_sum", a, b), _device_of_sum(a, b))


_PAIRS: tuple[tuple[Place, Place], ...] = (
    (("cpu", (3,)), ("cpu", (3,))),
    (("cuda", (3,)), ("cuda", (3,))),
    (("cpu", (3,)), ("cuda", (3,))),
    (("cuda", (3,)), ("cpu", (3,))),
    (("cuda", (3,)), ("cpu", ())),
    (("cpu", ()), ("cuda", (3,))),
    (("cpu", (3,)), ("cuda", ())),
    (("cpu", (1,)), ("cuda", (3,))),
    (("cpu", ()), ("cuda", ())),
    (("cpu", ()), ("cpu", (3,))),
)


def _place(draw: Draw) -> Place:
    return draw.choice(("cpu", "cuda")), draw.choice(((), (1,), (3,), (2, 3), (1, 3)))


def _device_of_sum(a: Place, b: Place) -> str | None:
    """torch's own answer: fake tensors have a device and a shape, and no memory on it."""
    with FakeTensorMode():
        x, y = (torch.empty(shape, device=device) for device, shape in (a, b))
        try:
            return (x + y).device.type
        except RuntimeError:
            return None


@device_of_sum.wrong(
    "moves_to_the_gpu",
    "Nothing is moved to the GPU for you: two tensors on two devices are an error.",
)
def _(a: Place, b: Place) -> str | None:
    return "cuda" if "cuda" in (a[0], b[0]) else "cpu"


@device_of_sum.wrong(
    "follows_the_first",
    "Nobody's device wins: two tensors on two devices are an error, whichever comes first.",
)
def _(a: Place, b: Place) -> str | None:
    return a[0]


@device_of_sum.wrong(
    "never_mixes",
    "Nearly. One mixture is allowed: a CPU tensor of shape () counts as a plain number.",
)
def _(a: Place, b: Place) -> str | None:
    return a[0] if a[0] == b[0] else None


@device_of_sum.wrong(
    "numbers_from_the_gpu_too",
    "A single number on the GPU may not join a CPU tensor: fetching it would make the CPU wait. "
    "Only a CPU number may join a GPU tensor.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    if a[1] == () and b[1] == ():
        return "cuda"
    return b[0] if a[1] == () else a[0] if b[1] == () else None


@device_of_sum.wrong(
    "one_element_is_enough",
    "A shape of (1,) is a vector with one element, not a number. Only shape () may mix.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if on_cpu[1] in ((), (1,)) else None


@device_of_sum.cost
def _(student: Student, draw: Draw) -> str:
    number = student.call("device_of_sum", ("cuda", (32, 600)), ("cpu", ()))
    refused = student.call("device_of_sum", ("cuda", (32, 600)), ("cpu", (600,)))
    return (
        f"logits on the GPU plus a CPU number: {number}; plus the bias left on the CPU: {refused}. "
        "4 bytes travel with the launch, 2,400 have to be sent by you"
    )


Pair = tuple[torch.Tensor, torch.Tensor]


@lab.question(
    "batch_to",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "What does `t.to(...)` do to t? Print t.dtype before and after.",
        "`.to` returns a new tensor and leaves the old one alone, so return what it returns. "
        "Integers are token numbers: leave them as they are.",
        "return tuple(t.to(where) if t.is_floating_point() else t for t in (x, y))",
    ),
)
def batch_to(student: Student, draw: Draw) -> None:
    """Detective case: two tensors with their floats in another dtype and their integers untouched.
    The code below looks right; make it right.

    x, y: tensors of any dtype; where: a floating-point dtype -> a pair.
    """
    always = [(torch.float32, torch.float64), (torch.float32, torch.bfloat16)]
    always += [(torch.float16, torch.float32)]
    for dtype, where in always + [(_dtype(draw), _dtype(draw)) for _ in draw.cases(3)]:
        n = draw.integer(2, 9)
        x = draw.tensor(n, 8, dtype=dtype)
        for y in (draw.integers(n, low=0, high=599), draw.tensor(n, dtype=torch.bool)):
            got = student.call("batch_to", x, y, where)
            want = _moved_by_torch(x, y, where)
            pair = isinstance(got, (list, tuple)) and len(got) == 2
            if not pair:
                raise Wrong(expected="a pair of tensors", got=describe(got))
            for mine, torchs in zip(got, want, strict=True):
                expect_close(mine, torchs, tolerance=0.0)


def _dtype(draw: Draw) -> torch.dtype:
    return draw.choice((torch.float16, torch.bfloat16, torch.float32, torch.float64))


def _moved_by_torch(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    """What nn.Module.to makes of the same tensors as buffers."""
    module = nn.Module()
    module.register_buffer("x", x.clone())
    module.register_buffer("y", y.clone())
    first, second = module.to(where).buffers()
    return first, second


@batch_to.wrong(
    "result_dropped",
    "The floats are as they were. `.to` returns a new tensor: whoever drops the result, or only "
    "gives it another name, keeps the old one.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    for t in (x, y):
        t = t.to(where)
    return x, y


@batch_to.wrong(
    "integers_too",
    "Token numbers became floats. An embedding or a loss cannot look up word 17.0: move only what "
    "is_floating_point().",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return x.to(where), y.to(where)


@batch_to.wrong(
    "mask_too",
    "A mask of True and False became numbers. Move only what is_floating_point().",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return x.to(where), y if y.dtype == torch.int64 else y.to(where)


@batch_to.wrong(
    "float32_only",
    "A float16 tensor was left behind. float16 and bfloat16 are floats too: ask "
    "t.is_floating_point().",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return x.to(where) if x.dtype == torch.float32 else x, y


@batch_to.wrong(
    "always_float64",
    "The floats came back in float64 although another dtype was wanted: `where` says which.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return x.double(), y


@batch_to.cost
def _(student: Student, draw: Draw) -> str:
    x, y = draw.tensor(32, 64), draw.integers(32, low=0, high=599)
    new = student.call("batch_to", x, y, torch.bfloat16)[0].nbytes
    same = student.call("batch_to", x, y, torch.float32)[0]
    shared = same.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    again = "none: `.to` hands back the same tensor" if shared else f"{same.nbytes:,} more"
    return f"{new:,} new bytes for 32 tokens in bfloat16; for the dtype that they have, {again}"
