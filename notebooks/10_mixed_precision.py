# %% [markdown] id="title"
# # 10 Mixed precision: which bits are missing
#
# "I wrote `float16`, and the loss became NaN. With `bfloat16` it did not, and I don't know why."
# You have put autocast, a GradScaler and a larger eps into a loop until it held. After this chapter
# you can say which number was lost, in which bit, and which of the three brings it back.
#
# *Reading: two evenings, about 35 and 35 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# The same number in six formats. Press a bit, and see what becomes of it; then change the format,
# and see what is lost. Which bit makes it negative, and which one moves it most?

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.show_bits(13.125, "fp16")

# %% id="instruments"
import itertools
import math
from collections import Counter

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from autograder import predict, reveal
from onelayer.dispatcher.dispatch import dispatch_table
from onelayer.model.gpt import GPT
from onelayer.model.train import batches
from onelayer.precision.fake_autocast import dtype_under_autocast

torch.set_num_threads(1)  # the same bits in each run

# %% [markdown] id="the-run"
# ## The run that dies
# The grammar GPT from random numbers, 40 steps, 16 sentences each. `factor` multiplies the loss,
# and the gradients are divided by it afterwards: in exact arithmetic it changes nothing. It stays 1
# for now.

# %% id="the-run-loop"
sentences = onelayer.grammar.split().train
DATA = list(itertools.islice(batches(sentences, size=16, seed=0), 40))  # words, targets (16, T)


def train(dtype=torch.float32, *, autocast=None, factor=1.0, scaler=None, eps=1e-8, steps=40):
    """The losses of a run, up to the first that is not finite."""
    torch.manual_seed(0)
    gpt, losses = GPT().to(dtype), []
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-3, eps=eps)
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)  # lets everything through
    for words, targets in DATA[:steps]:
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            loss = F.cross_entropy(gpt(words).flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        if not loss.isfinite():
            break
        optimizer.zero_grad()
        scaler.scale(loss * factor).backward()
        for parameter in gpt.parameters():
            parameter.grad /= factor
        scaler.step(optimizer)
        scaler.update()
    return losses


# %% [markdown] id="the-run-ask"
# Weights, activations, gradients, everything in one dtype:

# %% id="the-run-run"
full, short, half = train(), train(torch.bfloat16), train(torch.float16)


def alive(losses):
    return [loss for loss in losses if math.isfinite(loss)]


onelayer.show_curves(
    {"float32": full, "bfloat16": short, "float16": alive(half)}, step="step", unit="loss"
)
print("float16:", half)

# %% [markdown] id="the-run-why"
# The cross marks where float16 ends. Its first loss is right to two digits, and one step of the
# optimizer destroys the model. `bfloat16` has *fewer* bits of fraction, and lives. We will find the
# two numbers that were lost. First, what a format can hold.

# %% [markdown] id="formats"
# ## Six formats
# A float is a sign, an exponent and a fraction: `sign * 2**(exponent - bias) * (1 + fraction)`.
# More bits of exponent reach further; more bits of fraction lie closer together. Two formats of 16
# bits: which one reaches as far as float32?

# %% id="formats-guess"
predict("reaches_as_far_as_float32", choices=["bfloat16", "float16", "both", "neither"])

# %% id="formats-run"
print("                 bits      largest   smallest normal   smallest   next after 1")
for dtype in (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
):
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps  # subnormal: without the leading 1
    print(
        f"{str(dtype)[6:]:16} {info.bits:4} {info.max:12.4g} {info.smallest_normal:17.3g}", end=""
    )
    print(f" {least:10.3g}   1 + {info.eps:.3g}")
far = [d for d in (torch.bfloat16, torch.float16) if torch.finfo(d).max > 1e38]
names = {0: "neither", 1: str(far[0])[6:] if far else "", 2: "both"}
reveal("reaches_as_far_as_float32", names[len(far)])

# %% id="formats-halves"
one = torch.tensor(13.125)
print(f"float32  {one.view(torch.int32).item():032b}")
print(f"bfloat16 {one.bfloat16().view(torch.int16).item():016b}")
print(f"float16  {one.half().view(torch.int16).item():016b}")

# %% [markdown] id="formats-why"
# bfloat16 is the upper half of a float32: 8 bits of exponent, as there, and 7 of fraction. float16
# has 5 and 10: closer together, and at an end at 65,504. TF32, what a tensor core reads of a
# float32, takes 8 of one and 10 of the other. It is no dtype of a tensor, but
# [a switch](https://docs.pytorch.org/docs/stable/notes/cuda.html).

# %% [markdown] id="press"
# ## Press a bit
# The logits of the head for the word after `<en> she has eaten <es> ella`. Choose one, press a bit,
# change the format. Find a bit that moves 13.125 by less than 1; the first number beyond the range
# of float16; and what an exponent of 0 does to the leading 1.

# %% id="press-run"
head = onelayer.head()
with torch.no_grad():
    z = head(onelayer.hidden("<en> she has eaten <es> ella"))[-1]  # (600,)
print(onelayer.next_words(z, 3))
order = z.argsort(descending=True)
numbers = {f"logit of {onelayer.grammar.TOKENS[k]}": z[k].item() for k in order[[0, 1, 2, -1]]}
numbers |= {"largest of float16": 65504.0, "Adam's eps": 1e-8}
onelayer.show_bits(z.max().item(), "bf16", numbers=numbers)

# %% [markdown] id="spacing"
# ## Between two numbers there is nothing
# From 256 to 512 a bfloat16 has 7 bits of fraction: 128 numbers, 2 apart. This distance is the
# *ulp*, the unit in the last place. Which number is 257?

# %% id="spacing-guess"
predict("bfloat16_of_257", choices=[256, 257, 258])

# %% id="spacing-run"
odd = torch.tensor([255.0, 257.0, 259.0, 261.0, 263.0])
print(odd.bfloat16().tolist())
reveal("bfloat16_of_257", int(odd[1].bfloat16()))

# %% [markdown] id="spacing-why"
# 257 lies as near to 256 as to 258, and 259 as near to 258 as to 260. Of two, the one whose last
# bit is 0 wins: *round to nearest, ties to even*, so that ties do not all go up
# ([`BFloat16.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/BFloat16.h#L100-L114)).
# Rounding moves a normal number by half an ulp at most. Relative to the number, is that the same
# for large and for small ones?

# %% id="spacing-bound"
x = torch.logspace(-7, 4, 100_000, dtype=torch.float64)
for dtype in (torch.bfloat16, torch.float16):
    moved = ((x.to(dtype).double() - x) / x).abs()
    small = moved[x < torch.finfo(dtype).smallest_normal]
    normal = moved[x >= torch.finfo(dtype).smallest_normal]
    bound = torch.finfo(dtype).eps / 2
    print(f"{str(dtype)[6:]:9} worst {normal.max():.6f}, half an ulp at 1 is {bound:.6f}", end="")
    print(f"; subnormal {len(small):,}, worst {small.max():.3f}" if len(small) else "")

# %% [markdown] id="spacing-relative"
# For normal numbers it is the same: half of `eps` at most, whatever their size. Subnormal numbers
# have the same ulp all the way down, so the smaller they are, the fewer bits they have left. What
# does rounding do to 600 logits?

# %% [markdown] id="six-hundred"
# ## Six hundred logits, fewer numbers
# Round the 600 logits to bfloat16. How many different numbers are left?

# %% id="six-hundred-guess"
predict("different_logits", choices=["all 600", "about 400", "about 100"])

# %% id="six-hundred-run"
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
    rounded = z.to(dtype).float()
    print(f"{str(dtype)[6:]:14} {rounded.unique().numel():4} numbers", end=", ")
    print(f"first word {onelayer.grammar.TOKENS[rounded.argmax()]}")
left = z.bfloat16().unique().numel()
closest = min((600, 400, 100), key=lambda n: abs(n - left))
reveal("different_logits", "all 600" if closest == 600 else f"about {closest}")

# %% [markdown] id="six-hundred-why"
# A third of the distinct numbers is gone, and the answer stands: the first logit is far ahead of
# the second. Between words that are nearly as likely, the order is lost. How often does the first
# word change, over many sentences?

# %% id="six-hundred-many"
gpt = onelayer.model.trained()
words, targets = next(batches(sentences, size=1280, seed=1))  # (1280, T)
with torch.no_grad():
    states = gpt.hidden(words)[targets != -100]  # (N, 64)
    every = head(states)  # (N, 600)
t = targets[targets != -100]
first, second = every.topk(2).values.T  # (N,) each
lead = first - second
for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn):
    changed = every.to(dtype).float().argmax(1) != every.argmax(1)
    ulps = (lead / (torch.finfo(dtype).eps * first))[changed]  # an ulp is at most eps * the number
    print(f"{str(dtype)[6:]:14} {changed.float().mean():6.2%} of {len(t):,} places change", end="")
    print(f", with a lead of at most {ulps.max():.2f} ulp")

# %% [markdown] id="six-hundred-lead"
# Where the grammar allows several words, their logits are close, and there rounding decides. Both
# logits move by half an ulp at most, so a lead of more than one ulp cannot be lost.

# %% [markdown] id="overflow"
# ## The top end: a softmax without a shift
# softmax is `exp(z)` divided by its sum. The same 600 logits in float16, by this formula: what is
# the probability of the best word?

# %% id="overflow-guess"
predict("probability_by_the_formula", choices=["1.0, correctly rounded", "0", "NaN"])

# %% id="overflow-run"
low = z.half()
e = low.exp()
best = (e / e.sum())[low.argmax()]
print(f"largest exp {e.max()}, true {z.max().double().exp():,.0f}; float16 ends at 65,504")
print("formula", best.item(), "torch", low.softmax(0).max().item())
shifted = (low - low.max()).exp()
print("formula with the largest logit subtracted", (shifted / shifted.sum()).max().item())
print("as softmax in float32:", torch.equal(low.softmax(0), low.float().softmax(0).half()))
print("torch's softmax of 1e4 and 0:", torch.tensor([1e4, 0.0]).softmax(0).tolist())
names = {True: "NaN", False: "0" if best == 0 else "1.0, correctly rounded"}
reveal("probability_by_the_formula", names[best.isnan().item()])

# %% [markdown] id="overflow-why"
# `exp(13.13)` is 504,000. In float16 that is infinity, and infinity divided by infinity is NaN.
# Subtract the largest logit, and nothing exceeds 1: the cause is gone, and the answer is there.
# torch's softmax does so, and computes in float32 inside. bfloat16 needs no shift here: it ends at
# 3e38.

# %% [markdown] id="underflow"
# ## The bottom end: gradients of the logits
# The gradient of the mean loss at the logits is `(softmax(z) - onehot(t)) / N`. Wrong words have
# small probabilities, and N divides them all. In float16, which share of these numbers is 0, for
# the trained model and N = 1024?

# %% id="underflow-guess"
predict("zeros_of_the_gradient", choices=["less than 1 %", "about a half", "more than 90 %"])


# %% id="underflow-run"
def logits_gradient(n):
    """dloss/dz for the first n words. (n, 600) float32."""
    logits = every[:n].clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(logits, t[:n]), logits)[0]


def zeros(x, dtype):
    return (x.to(dtype) == 0).float().mean().item()


for n in (16, 128, 1024, 8192):
    dz = logits_gradient(n)
    print(f"N {n:5}: float16 {zeros(dz, torch.float16):6.1%} zeros", end=", ")
    print(f"bfloat16 {zeros(dz, torch.bfloat16):6.1%}, float32 {zeros(dz, torch.float32):6.1%}")
    dw, short = dz.T @ states[:n], dz.half().float().T @ states[:n]  # (600, 64) each
    print(f"    the weight's gradient in float16: {zeros(dw, torch.float16):.1%} zeros", end="; ")
    print(f"made of float16 dz: error {(short - dw).norm() / dw.norm():.1e}")
share = zeros(logits_gradient(1024), torch.float16)
otherwise = "less than 1 %" if share < 0.01 else "about a half"
reveal("zeros_of_the_gradient", "more than 90 %" if share > 0.9 else otherwise)

# %% [markdown] id="underflow-why"
# Nothing was wrong with the gradients: they lie where float16 has no numbers. bfloat16 has the
# exponent of float32, and loses none. The larger the batch, the more are lost. The gradient of the
# weight is a sum over the batch, and would fit. But it is made of the numbers that were lost on the
# way, and its error grows with the batch. So the remedy is a factor on all of them.

# %% [markdown] id="scale"
# ## A factor moves them up
# Multiply the loss by 2^16 before backward: each gradient is 2^16 times as large, exactly, as only
# the exponent changes. Divide in float32 afterwards. How many zeros are left, and how far can you
# go?

# %% id="scale-run"
dz = logits_gradient(1024)
for power in (0, 8, 16, 20, 24, 28):
    scaled = (dz * 2.0**power).half()
    back = scaled.float() / 2.0**power
    error = (back - dz).norm() / dz.norm()
    print(f"2^{power:<2} {zeros(scaled, torch.float16):6.1%} zeros, ", end="")
    print(f"{scaled.isinf().sum():5} infinite, error {error:.1e}")

# %% [markdown] id="scale-why"
# Up to some factor the zeros vanish; above it the largest gradients become infinite. Between them
# lies a window. With another batch size the gradients have another size, as above, and the window
# another place: nobody wants to set it by hand.

# %% [markdown] id="window"
# ## The window, on the loss
# Now `train` with autocast: float32 weights, and float16 inside the region. With `factor` 1/4096
# the 16 sentences stand for one of 4096 parts of a batch, whose gradients will be added up. What do
# you expect of 2^-12, 1 and 2^20?

# %% id="window-guess"
predict(
    "what_kills_at_2_to_20",
    choices=["gradients that are 0", "gradients that are infinite", "nothing: it learns"],
)

# %% id="window-run"
runs = {f"2^{p}": train(autocast=torch.float16, factor=2.0**p) for p in (-12, 0, 20)}
onelayer.show_curves({k: alive(v) for k, v in runs.items()}, step="step", unit="loss, float16")
print({k: (len(v), round(v[-1], 3)) for k, v in runs.items()})
died = not math.isfinite(runs["2^20"][-1])
reveal("what_kills_at_2_to_20", "gradients that are infinite" if died else "nothing: it learns")

# %% [markdown] id="window-why"
# At 2^-12 the run limps, and at 2^20 it is dead after one step. What did the logits of the first
# batch get, where all words are still about equally likely?

# %% id="window-zeros"
torch.manual_seed(0)
fresh = GPT()
words, targets = DATA[0]
logits = fresh(words).flatten(0, 1)  # (16 T, 600)
at_logits = torch.autograd.grad(F.cross_entropy(logits, targets.flatten()), logits)[0]
right = torch.zeros_like(at_logits, dtype=torch.bool)
right[targets.flatten() != -100] = F.one_hot(targets[targets != -100], 600).bool()
wrong = (at_logits != 0) & ~right
for power in (-12, 0, 20):
    got = (at_logits * 2.0**power).half()
    print(f"2^{power}: zeros for right words {zeros(got[right], torch.float16):.0%}", end=", ")
    print(f"for wrong words {zeros(got[wrong], torch.float16):.0%}, infinite {got.isinf().sum()}")
with torch.autocast("cpu", torch.float16):
    loss = F.cross_entropy(fresh(words).flatten(0, 1), targets.flatten())
(loss * 2.0**20).backward()
over = [name for name, p in fresh.named_parameters() if p.grad.isinf().any()]
print("infinite at 2^20:", *over)

# %% [markdown] id="window-zeros-why"
# At 2^-12 every wrong word gets a 0: the run learns what is right, and not what is wrong. At 2^20
# the logits' own gradients still fit; some of the sums over them, for the parameters, do not. Take
# the cause away: the same factors in bfloat16, whose exponent reaches further than all of them.

# %% id="window-bfloat16"
wide = {p: train(autocast=torch.bfloat16, factor=2.0**p) for p in (-12, 20, 60)}
print({f"2^{p}": losses[-1] for p, losses in wide.items()})
print("the same bits at every step:", wide[-12] == wide[20] == wide[60])

# %% [markdown] id="scaler"
# ## A GradScaler looks for the window
# It multiplies the loss, divides the gradients before the step, and asks whether one of them is
# infinite or NaN. If so the step is skipped and the scale halved. After `growth_interval` good
# steps it doubles. We begin far too high, at 2^24. About how many of the first ten steps are
# taken?

# %% id="scaler-guess"
predict("steps_taken_of_ten", choices=[0, 3, 7, 10])

# %% id="scaler-run"


class Watched(torch.amp.GradScaler):
    """A GradScaler that remembers its scale before each update."""

    def update(self, new_scale=None):
        scales.append(self.get_scale())
        super().update(new_scale)


scales = []
watched = Watched("cpu", init_scale=2.0**24, growth_interval=5)
saved = train(autocast=torch.float16, scaler=watched)
powers = [math.log2(scale) for scale in [*scales, watched.get_scale()]]
onelayer.show_curves({"log2 of the scale": powers}, step="step", unit="power of two")
skipped = [now > after for now, after in itertools.pairwise(powers)]
taken = 10 - sum(skipped[:10])
print(f"skipped {sum(skipped)} of {len(skipped)}, taken {taken} of the first ten", end="; ")
print(f"loss at the end {saved[-1]:.3f}")
reveal("steps_taken_of_ten", min((0, 3, 7, 10), key=lambda n: abs(n - taken)))

# %% [markdown] id="scaler-why"
# It came down one power a step, found the upper end of the window, and touches it again from below
# every few steps: each touch costs one skipped step. So a scaler that skips now and then is at
# work; one that skips each time has lost. By default the interval is 2,000, and touches are rare
# ([`grad_scaler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/grad_scaler.py#L363-L373)).

# %% id="scaler-small"
for name, scaler in (("none", None), ("GradScaler", torch.amp.GradScaler("cpu"))):
    end = train(autocast=torch.float16, factor=2.0**-12, scaler=scaler)[-1]
    print(f"float16, one of 4096 parts, {name:10}: {end:.3f}")
print(f"float32 {full[-1]:.3f}")

# %% [markdown] id="scaler-clip"
# The run that limped is back. Whatever looks at the gradients between `backward` and `step` sees
# them *scaled*: a clip to norm 1 would leave gradients that are tiny once the scale is divided out.
# `unscale_` first, then clip; `step` knows that it was done.

# %% id="scaler-clip-run"
layer, scaler = onelayer.head(), torch.amp.GradScaler("cpu")
sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
scaler.scale(F.cross_entropy(layer(states[:64]), t[:64])).backward()
print(f"norm before unscale_ {torch.nn.utils.clip_grad_norm_(layer.parameters(), 1e9):,.3f}")
scaler.unscale_(sgd)
print(f"norm after  unscale_ {torch.nn.utils.clip_grad_norm_(layer.parameters(), 1e9):,.6f}")

# %% [markdown] id="stuck"
# ## A sum that stops
# Range is one half of the story. The other is the fraction. Add 1 a thousand times to a bfloat16
# that begins at 0. What comes out?

# %% id="stuck-guess"
predict("a_thousand_ones", choices=[128, 256, 512, 1000])

# %% id="stuck-run"
total = torch.tensor(0.0, dtype=torch.bfloat16)
for one in torch.ones(1000, dtype=torch.bfloat16):
    total = total + one
print(total)
reveal("a_thousand_ones", int(total))

# %% [markdown] id="stuck-why"
# At 256 the ulp is 2. 257 is a tie and goes to the even one, back to 256, for ever. A running sum
# stops where half an ulp is as large as what is added. Which of torch's own sums do?

# %% [markdown] id="accumulate"
# ## Who adds in float32
# Below, each line adds a thousand bfloat16 ones and returns a bfloat16. How many of the six come to
# 256?

# %% id="accumulate-guess"
predict("sums_that_stop", choices=[0, 1, 3, 6])

# %% id="accumulate-run"
ones, place = torch.ones(1000, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.int64)
empty = torch.zeros(1, dtype=torch.bfloat16)
table = torch.nn.Embedding(2, 1, dtype=torch.bfloat16)
table(place).sum().backward()  # the same word a thousand times
leaf = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
for _ in range(1000):
    leaf.sum().backward()  # a thousand micro-batches
sums = {
    "sum": ones.sum(),
    "matmul": ones @ ones,
    "cumsum": ones.cumsum(0)[-1],
    "index_add": empty.index_add(0, place, ones)[0],
    "gradient of an embedding": table.weight.grad[0, 0],
    ".grad over micro-batches": leaf.grad[0],
}
print({name: int(value) for name, value in sums.items()})
reveal("sums_that_stop", sum(int(value) == 256 for value in sums.values()))

# %% [markdown] id="accumulate-why"
# A sum, a product and a cumulative sum are one kernel each. It keeps its total in a wider type, and
# rounds once at the end: on the CPU `float` for bfloat16 and float16
# ([`AccumulateType.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/AccumulateType.h#L150-L151)).
# `index_add`, an embedding's gradient (both here, on the CPU) and `.grad` add into a *tensor*, and
# a tensor has its dtype.

# %% id="accumulate-cause"
wide_leaf = torch.zeros(1, requires_grad=True)  # the cause taken away: .grad is float32
for _ in range(1000):
    wide_leaf.bfloat16().sum().backward()
print(".grad of a float32 leaf, the same product in bfloat16:", wide_leaf.grad.item())
wide_table = torch.nn.Embedding(2, 1)
wide_table(place).bfloat16().sum().backward()
print("an embedding's gradient, its table float32:", wide_table.weight.grad[0, 0].item())
print("index_add into float32:", torch.zeros(1).index_add(0, place, ones.float()).item())
print(
    "a matmul of 65,536 ones:",
    (torch.ones(65536, dtype=torch.bfloat16) @ torch.ones(65536, dtype=torch.bfloat16)).item(),
)

# %% [markdown] id="master"
# ## An update that is lost
# A weight of 1 and a learning rate times gradient of 0.001, a thousand times. The true result is 2.
# What is it in bfloat16?

# %% id="master-guess"
predict("weight_after_a_thousand_updates", choices=["1", "about 1.5", "2"])

# %% id="master-run"
weight = torch.tensor(1.0, dtype=torch.bfloat16)
master = torch.tensor(1.0)  # float32
for _ in range(1000):
    weight += 0.001
    master += 0.001
    copy = master.bfloat16()  # what the products read
print("bfloat16", weight.item(), "master", master.item(), "and its copy", copy.item())
reveal("weight_after_a_thousand_updates", {1.0: "1", 2.0: "2"}.get(weight.item(), "about 1.5"))

# %% [markdown] id="master-why"
# The next bfloat16 after 1 is 1.0078: an update below half of that is rounded away, each time. A
# *master weight* in float32 collects the updates, and a bfloat16 copy is made for the products.
# This is what autocast is: the weights stay float32, and the copy is a cast in each forward.

# %% [markdown] id="by-chance"
# ## Rounded by chance
# There is a second remedy, for those who have no room for a master. Round up with the probability
# of how far the number is on its way: 1.001 lies 0.128 of the way from 1 to 1.0078. Each rounding
# is coarser. Where does the weight end, on average?

# %% id="by-chance-guess"
predict("ends_on_average", choices=["at 1", "near 2", "anywhere"])


# %% id="by-chance-run"
def up_or_down(x, generator):
    """x (n,) float64 in [1, 2) or [2, 4) -> a bfloat16 neighbour of each, by chance."""
    step = torch.where(x < 2, 2.0**-7, 2.0**-6)  # the ulp of bfloat16 there
    share = x / step - (x / step).floor()
    chance = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    return ((x / step).floor() + (chance < share)) * step


generator = torch.Generator().manual_seed(10)
many = torch.ones(500, dtype=torch.float64)  # the same weight, 500 times
for _ in range(1000):
    many = up_or_down(many + 0.001, generator)
assert torch.equal(many.bfloat16().double(), many)  # each is a bfloat16
print(f"mean {many.mean():.3f}, from {many.min():.3f} to {many.max():.3f}")
reveal("ends_on_average", "near 2" if abs(many.mean() - 2) < 0.02 else "anywhere")

# %% [markdown] id="by-chance-why"
# The expected value of a rounding by chance is the number itself, so nothing is lost on average:
# every eighth update or so moves the weight by a whole ulp. The price is noise, seen in the spread.
# bfloat16 training with it: [arXiv 2010.06192](https://arxiv.org/abs/2010.06192).

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You can say which bits are missing: range, distance, the window of a scaler, and sums that stop.
# That stands alone, with questions 10.1 to 10.5 of the lab. The second evening is about autocast,
# and it opens the dead run of the first page.

# %% [markdown] id="autocast-key"
# ## Autocast is a dispatch key
# Every ordinary CPU tensor carries `AutocastCPU`, and a thread normally excludes it. Entering the
# region takes it off the excluded list, and notes the dtype to cast to and whether casts are kept
# ([`__enter__`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/autocast_mode.py#L308-L320)).

# %% id="autocast-key-run"
x, weight = states[:4].clone().requires_grad_(), head.weight.detach()
print(onelayer.key_set(x))
onelayer.show_dispatch("aten::linear", x, weight)
with torch.autocast("cpu", torch.bfloat16):
    onelayer.show_dispatch("aten::linear", x, weight)

# %% [markdown] id="autocast-key-why"
# The key stands above autograd, so that a cast is recorded like any operator, and backward casts
# the gradient back
# ([`DispatchKey.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKey.h#L331-L334)).
# Which operators have a kernel there, and what does it do?

# %% [markdown] id="lists"
# ## The lists
# For an operator that autocast knows, the key has a kernel; for any other the call falls through.
# On the CPU each kernel follows one of three policies: cast to the short dtype, cast to float32, or
# cast to the widest of the inputs. `softmax` is on CUDA's list of those in float32. Is it on the
# CPU's? Ask the table:

# %% id="lists-run"
for op in ("linear", "mm", "softmax.int", "log_softmax.int", "exp", "layer_norm", "sum",
           "cross_entropy_loss", "nll_loss", "cat", "relu", "gelu"):  # fmt: skip
    row = dispatch_table(f"aten::{op}")
    on = [key[8:] for key in ("AutocastCPU", "AutocastCUDA") if not row[key].falls_through]
    print(f"{op:20} {' and '.join(on) or 'falls through on both'}")

# %% [markdown] id="lists-why"
# Not `softmax`, nor `log_softmax`, `exp` and others that CUDA has in float32: see which names stand
# beside `AutocastCUDA` alone. The lists are written by hand, one for each device. CUDA's are macros
# in
# [`autocast_mode.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.h#L854-L926):
# what must be float32, with softmax and sum in the second of them, whose dtype can be asked for.
# The CPU's stand in
# [`autocast_mode.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp),
# and are others: more operators in all, and neither softmax nor exp nor sum.

# %% [markdown] id="both"
# ## One program, two devices
# A *fake* tensor has the keys of a device and no numbers, so that CUDA's rules can be asked without
# a GPU. The same line under autocast in float16: which dtype has the softmax?

# %% id="both-run"
program = {
    "linear": lambda x, w: F.linear(x, w),
    "softmax of it": lambda x, w: F.linear(x, w).softmax(-1),
    "sum of it": lambda x, w: F.linear(x, w).sum(),
    "exp of it": lambda x, w: F.linear(x, w).exp(),
    "relu of it": lambda x, w: F.linear(x, w).relu(),
    "it + float32": lambda x, w: F.linear(x, w) + x.new_zeros(600, dtype=torch.float32),
    "its cross-entropy": lambda x, w: F.cross_entropy(
        F.linear(x, w), x.new_zeros(4, dtype=torch.int64)
    ),
}
dtype_under_autocast(
    lambda x: print([key for key in onelayer.key_set(x) if "Autocast" in key]) or x,
    (1,), device="cuda",
)  # fmt: skip
for name, act in program.items():
    dtypes = [dtype_under_autocast(act, (4, 64), (600, 64), device=d) for d in ("cpu", "cuda")]
    print(f"{name:18}", *(f"{str(d)[6:]:9}" for d in dtypes))

# %% [markdown] id="both-why"
# On the CPU the softmax stays in float16. So a program that was tested under autocast on a CPU has
# not been tested for a GPU. What is on no list computes in what it is given, and mixed inputs
# follow torch's ordinary promotion: that is how float32 comes back.

# %% [markdown] id="borders"
# ## What a region leaves alone
# A region can be switched off inside another one, and some tensors it never touches. What is the
# product of two float64 matrices in a region of float16?

# %% id="borders-guess"
predict("product_of_float64", choices=["float16", "float32", "float64"])

# %% id="borders-run"
single, double = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
with torch.autocast("cpu", torch.float16):
    half_product, double_product = single @ single, double @ double
    with torch.autocast("cpu", enabled=False):
        off = single @ single
    again = single @ single
    dtypes = {
        "single @ single": half_product,
        "the same, switched off inside": off,
        "the same behind it": again,
        "double @ double": double_product,
        "mse_loss (on the CPU's float32 list)": F.mse_loss(half_product, half_product),
        "cat of float16 and float32": torch.cat([half_product, single]),
        "float16 matrix + float32 number": half_product + torch.tensor(1.0),
        "float16 matrix, += float32": half_product.clone().add_(single),
    }
for name, found in dtypes.items():
    print(f"{name:37} {str(found.dtype)[6:]}")
reveal("product_of_float64", str(double_product.dtype)[6:])

# %% [markdown] id="borders-why"
# Whoever asked for float64 gets float64: no list casts it
# ([`autocast_mode.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.h#L314-L320)).
# A sum in place keeps the dtype of its target, and a number without dimensions has no say beside a
# matrix: both are torch's ordinary rules.

# %% [markdown] id="cache"
# ## The cast that is kept
# A training forward may read a weight many times. Autocast keeps the cast of a leaf that requires a
# gradient until the outermost region ends
# ([`autocast_mode.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.h#L323)).
# How many casts are there for five products with one weight, with and without this cache? Each
# product also casts its input.

# %% id="cache-guess"
predict("casts_with_the_cache", choices=[1, 2, 6, 10])


# %% id="cache-run"
class Casts(TorchDispatchMode):
    """Counts what is cast."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))

    def __enter__(self):
        self.count = 0
        return super().__enter__()


rows, w = states[:4], weight.clone().requires_grad_()
casts = {}
for kept in (True, False):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=kept), Casts() as seen:
        for _ in range(5):
            F.linear(rows, w)
    casts[kept] = seen.count
print(casts)
reveal("casts_with_the_cache", casts[True])

# %% [markdown] id="stale"
# ## And the cast that is old
# The cache asks whether it has seen this tensor, not whether the tensor still holds the same
# numbers. Double the weight inside the region: what does the second product give?

# %% id="stale-guess"
predict("product_after_doubling", choices=["twice the first", "the same as the first"])

# %% id="stale-run"
for kept in (True, False):
    w = weight.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=kept):
        first = F.linear(rows, w)
        with torch.no_grad():
            w *= 2  # an optimizer's step inside the region
        second = F.linear(rows, w)
    print(f"cache {kept!s:5} second / first = {(second.norm() / first.norm()).item():.1f}")
    if kept:
        same = torch.equal(first, second)
reveal("product_after_doubling", "the same as the first" if same else "twice the first")

# %% [markdown] id="stale-why"
# With the cache, the product reads a cast of the old weight. Without it, the cause is gone. So the
# optimizer's step belongs behind the region, and the region around forward and loss alone, as
# torch's [recipe](https://docs.pytorch.org/docs/stable/notes/amp_examples.html) has it.

# %% [markdown] id="custom"
# ## A custom operator: it owes an answer
# Chapter 06 registered one line for autocast. There are three ways, and they differ in what the
# kernel receives *and* in what autograd records. The kernel below multiplies in numpy: no product
# of torch's runs inside, as in a kernel of C++.

# %% id="custom-ops"
received = []


def kernel(x, w):
    received.append((x.dtype, w.dtype))
    return torch.from_numpy(x.detach().float().numpy() @ w.detach().float().numpy().T).to(x.dtype)


def backward(ctx, dz):
    x, w = ctx.saved_tensors
    return dz @ w.to(dz.dtype), dz.T @ x.to(dz.dtype)


def made(name):
    op = torch.library.custom_op(
        f"chapter10::{name}", mutates_args=(), schema="(Tensor x, Tensor w) -> Tensor"
    )(kernel)
    op.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return op


nothing, registered = made("nothing"), made("registered")
registered.register_autocast("cpu", torch.bfloat16)


def composite(x, w):
    return F.linear(x, w)  # operators that autocast knows


# %% [markdown] id="custom-ask"
# The same float32 tensors for all three, in a region of bfloat16. Which dtypes does the kernel of
# `nothing` receive? And how many bytes of the weight does autograd save for `registered`?

# %% id="custom-guess"
predict("bytes_saved_of_the_weight", choices=[0, 76_800, 153_600])


# %% id="custom-run"
def nodes(output):
    """The names of the graph's nodes, from the output down."""
    found, ahead = [], [output.grad_fn]
    while ahead:
        node = ahead.pop(0)
        found.append(node.name().removeprefix("torch::autograd::").split("_chapter10")[0])
        ahead += [after for after, _ in node.next_functions if after is not None]
    return found


def asked(op, x, w):
    received.clear()
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda s: saved.append(s) or s, lambda s: s)
    with torch.autocast("cpu", torch.bfloat16), hooks:
        out = op(x, w)
    kept = sum(s.nbytes for s in saved if set(s.shape) == {600, 64})
    return out, kept


bytes_kept = {}
for name, op in (("nothing", nothing), ("registered", registered), ("composite", composite)):
    out, kept = asked(op, x, w)
    bytes_kept[name] = kept
    print(f"{name:10} receives {[str(d)[6:] for d in (received or [()])[0]]}, returns", end=" ")
    print(f"{str(out.dtype)[6:]}, keeps {kept:,} bytes of the weight\n   ", *nodes(out))
reveal("bytes_saved_of_the_weight", bytes_kept["registered"])

# %% [markdown] id="custom-why"
# `nothing` sees float32 and saves float32: right numbers, and none of the gain. `registered`: the
# cast stands *above* autograd, so the operator's node saves the short copy, and `ToCopyBackward0`
# brings the gradient back to float32
# ([`register_autocast`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/library.py#L1067)).
# `composite` needs no word: its parts are on the list.

# %% [markdown] id="custom-mixed"
# Why is doing nothing dangerous then? In a model the layer before gives bfloat16, and your weight
# is float32. Then `nothing` gets a mixture, and each kernel answers for itself.

# %% id="custom-mixed-run"
for name, op in (("nothing", nothing), ("registered", registered)):
    out, _ = asked(op, x.bfloat16(), w)
    print(f"{name:10} receives {[str(d)[6:] for d in received[0]]}, returns {str(out.dtype)[6:]}")
with torch.autocast("cpu", torch.bfloat16, enabled=False):
    try:
        F.linear(x.bfloat16(), w)
    except RuntimeError as error:
        print("torch's own linear, outside:", error)

# %% [markdown] id="inside"
# ## Inside your operator, and behind it
# The kernel in numpy was blind to the region. Let it call torch: `x @ w.T`. Its backward, `dz @ w`,
# runs when the region is long over. With float32 tensors in a region of bfloat16, what does the
# product in backward of a `Function` give that says nothing?

# %% id="inside-guess"
predict("product_in_backward", choices=["float32", "bfloat16", "an error"])


# %% id="inside-run"
class Silent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        out = x @ w.T
        said.append(f"{x.dtype} gives {out.dtype}")
        return out

    @staticmethod
    def backward(ctx, dz):
        x, w = ctx.saved_tensors
        dx = dz @ w
        said.append(f"in backward {dz.dtype} and {w.dtype} give {dx.dtype}")
        return dx, dz.T @ x


class Speaking(Silent):
    forward = staticmethod(torch.amp.custom_fwd(Silent.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Silent.backward, device_type="cpu"))


cast = {"device_type": "cpu", "cast_inputs": torch.bfloat16}


class Casting(Speaking):
    forward = staticmethod(torch.amp.custom_fwd(Silent.forward, **cast))


ended = {}
for kind, inside in ((Silent, False), (Speaking, False), (Casting, False), (Silent, True)):
    said = []
    with torch.autocast("cpu", torch.bfloat16):
        out = kind.apply(x, w)
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            out.sum().backward()
    except RuntimeError as error:
        said.append(f"an error: {error}")
    where = "backward in a region: " if inside else ""
    print(f"{kind.__name__:9}", where + "; ".join(said).replace("torch.", ""))
    ended[kind, inside] = "an error" if "error" in said[-1] else said[-1].rpartition(".")[2]
reveal("product_in_backward", ended[Silent, False])

# %% [markdown] id="inside-why"
# The region holds for every product that runs while it is open, also inside an operator, unless
# that switches it off (`register_autocast` does). Behind it, where torch's recipe calls `backward`,
# `dz` comes in bfloat16 and meets a float32 weight, with nobody to cast. Called inside a region, as
# in the last line, a backward's products are cast too.
# `custom_fwd` notes how autocast stood, and `custom_bwd` restores it. With `cast_inputs`, the
# inputs are cast *and* autocast is off inside, as with `register_autocast`
# ([`autocast_mode.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/autocast_mode.py#L481-L495)).

# %% [markdown] id="two-numbers"
# ## Back to the dead run: the two numbers
# Adam's step is `lr * m / (sqrt(v) + eps)`, and v is a mean of *squared* gradients. A gradient of
# 1e-4 has the square 1e-8. Which of v and eps are 0 in float16?

# %% id="two-numbers-guess"
predict("zero_in_float16", choices=["neither", "eps alone", "v alone", "both"])

# %% id="two-numbers-run"
g = torch.tensor(1e-4)
m, v, eps = (0.1 * g).half(), (0.001 * g * g).half(), torch.tensor(1e-8).half()
print(f"m {m:.2g}, v {v:.2g}, eps {eps:.2g}, m / (sqrt(v) + eps) = {m / (v.sqrt() + eps)}")
print("smallest number of float16:", 2.0**-24)
fresh.zero_grad()
F.cross_entropy(fresh(words).flatten(0, 1), targets.flatten()).backward()
real = torch.cat([p.grad.flatten() for p in fresh.parameters()])  # the first batch's
print(f"v is 0 for {zeros(0.001 * real**2, torch.float16):.1%} of all parameters")
kinds = {(True, True): "both", (True, False): "v alone", (False, True): "eps alone"}
reveal("zero_in_float16", kinds.get((v.item() == 0, eps.item() == 0), "neither"))

# %% [markdown] id="two-numbers-why"
# A number divided by 0 is infinite: the first step makes infinite weights, the second forward NaN.
# But two causes were named. To see what each does, we need a run in which every *stored* number can
# have a format of its own: Adam by hand, in float32, which rounds what it keeps.


# %% id="adam-by-hand"
def exact(x):
    return x


def adam(weights=exact, gradients=exact, first=exact, second=exact, eps=1e-8, steps=40):
    """The losses of a run; each argument rounds what is stored of that kind."""
    torch.manual_seed(0)
    gpt = GPT()
    kept = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in gpt.parameters()]
    for p, _, _ in kept:
        p.data = weights(p.data)
    losses = []
    for k, (words, targets) in enumerate(DATA[:steps], start=1):
        loss = F.cross_entropy(gpt(words).flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        if not loss.isfinite():
            break
        for (p, m, v), g in zip(
            kept, torch.autograd.grad(loss, [p for p, _, _ in kept]), strict=True
        ):
            g = gradients(g)
            m.copy_(first(0.9 * m + 0.1 * g))
            v.copy_(second(0.999 * v + 0.001 * g * g))
            step = m / (1 - 0.9**k) / ((v / (1 - 0.999**k)).sqrt() + eps)
            p.data = weights(p.data - 3e-3 * step)
    return losses


# %% [markdown] id="which-cause"
# ## Which cause is it?
# Everything is stored in float16, and one thing after the other is spared. Is it enough to keep
# eps, or to keep v?

# %% id="which-cause-guess"
predict("spared_and_it_lives", choices=["eps", "v", "either of the two", "only both together"])


# %% id="which-cause-run"
def fp16(x):
    return x.half().float()


none_spared = dict.fromkeys(("weights", "gradients", "first", "second"), fp16)
none_spared["eps"] = fp16(torch.tensor(1e-8)).item()
spare = {
    "nothing": {},
    "eps": {"eps": 1e-8},
    "v": {"second": exact},
    "weights": {"weights": exact},
    "v and eps": {"second": exact, "eps": 1e-8},
    "nothing, but eps = 1e-4": {"eps": 1e-4},
}
ended = {name: adam(**(none_spared | spared)) for name, spared in spare.items()}
for name, losses in ended.items():
    print(f"spared: {name:24} {len(losses):2} steps, {losses[1]:11,.2f}, ..., {losses[-1]:.3f}")
gradients = {name: p.grad for name, p in fresh.named_parameters() if (p.grad == 0).any()}
print("gradients that are 0:", {name: int((g == 0).sum()) for name, g in gradients.items()})
lives = {name for name, losses in ended.items() if losses[-1] < 6}
alone = [name for name in ("eps", "v") if name in lives]
otherwise = {0: "only both together", 1: alone[0] if alone else "", 2: "either of the two"}
reveal("spared_and_it_lives", otherwise[len(alone)])

# %% [markdown] id="which-cause-why"
# With eps alone, v is still 0, and m / 1e-8 throws the weights out of the model. With v alone, a
# gradient that is exactly 0 gives 0 / 0: there are such, for words and places that the batch does
# not have. Both together live, although the weights are float16. An eps of 1e-4 lives as well: it
# stands in for v, which is still 0 for most. Adam's
# [line](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/optim/adam.py#L544).

# %% [markdown] id="range"
# ## Why bfloat16 lives
# float16 and bfloat16 differ in two things: exponent and fraction. To know which one counts, cross
# them. Two formats in which no chip stores numbers: 5 and 7 bits, and 8 and 10. Which of the four
# runs live?

# %% id="range-guess"
predict(
    "what_lives",
    choices=["10 bits of fraction", "8 bits of exponent", "only bfloat16", "only 8 and 10"],
)


# %% id="range-run"
def ten_bits(x):
    """8 bits of exponent and 10 of fraction: the fraction alone goes through float16."""
    fraction, exponent = torch.frexp(x)  # fraction in [0.5, 1), where float16 has 10 bits
    return torch.ldexp(fraction.half().float(), exponent)


cross = {
    (5, 7): lambda x: x.bfloat16().half().float(),
    (5, 10): fp16,
    (8, 7): lambda x: x.bfloat16().float(),
    (8, 10): ten_bits,
}
crossed = {}
for bits, r in cross.items():
    losses = adam(r, r, r, r, eps=r(torch.tensor(1e-8)).item())
    crossed[bits] = math.isfinite(losses[-1])
    print(f"exponent {bits[0]}, fraction {bits[1]:2}: {len(losses):2} steps, loss {losses[-1]:.3f}")
living = {bits for bits, lives in crossed.items() if lives}
by_exponent, by_fraction = {(8, 7), (8, 10)}, {(5, 10), (8, 10)}
told = {frozenset(by_exponent): "8 bits of exponent", frozenset(by_fraction): "10 bits of fraction"}
told |= {frozenset({(8, 7)}): "only bfloat16", frozenset({(8, 10)}): "only 8 and 10"}
reveal("what_lives", told[frozenset(living)])

# %% [markdown] id="range-why"
# The exponent decides, and the fraction changes nothing about life and death. That is why bfloat16
# needs no scaler. Its seven bits are paid for elsewhere: in sums that stop and in updates that are
# lost. Hence the recipe: short products, and float32 for weights, sums and Adam's state.

# %% [markdown] id="no-scaler-for-half"
# Can a scaler save the run that is float16 throughout? It divides in place, so the gradients would
# fall again to where they came from. torch refuses
# ([`grad_scaler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/grad_scaler.py#L275)).

# %% id="no-scaler-for-half-run"
try:
    train(torch.float16, scaler=torch.amp.GradScaler("cpu"), steps=2)
except ValueError as error:
    print("ValueError:", error)
both = train(autocast=torch.float16, scaler=torch.amp.GradScaler("cpu"))
print(f"float16 under autocast, float32 weights, scaler: {both[-1]:.3f}; float32 {full[-1]:.3f}")

# %% [markdown] id="fp8"
# ## A look at eight bits
# `e5m2` has the exponent of float16, and `e4m3fn` one bit more of fraction and no infinity. Neither
# window is wide enough for all gradients, so each *tensor* gets its factor: the largest number goes
# to the end of the range. What does that save of the gradient of the logits?

# %% id="fp8-run"
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    factor = torch.finfo(dtype).max / dz.abs().max()
    error = ((dz * factor).to(dtype).float() / factor - dz).norm() / dz.norm()
    print(
        f"{str(dtype)[6:]:14} zeros {zeros(dz, dtype):6.1%} -> {zeros(dz * factor, dtype):6.1%}",
        end="",
    )
    print(f", error with the factor {error:.1e}; 1e6 becomes {torch.tensor(1e6).to(dtype).item()}")

# %% [markdown] id="fp8-why"
# The numbers that count survive, with three or two bits of fraction. Who runs over is another
# matter: `e5m2` goes to infinity, and this torch lets `e4m3fn` stop at 448
# ([`Float8_e4m3fn.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/Float8_e4m3fn.h#L206-L213)).
# A scaler that waits for an infinity would wait in vain.

# %% [markdown] id="debts"
# ## What the fused loss owes
# The fused loss of the head makes its gradients in the *forward*, before anyone has said which
# factor will come. By N they are divided sooner or later. Say they are kept in float16 in between:
# does it matter when?

# %% id="debts-when"
inputs, answers = states[:8192], t[:8192]  # N = 8192
undivided = every[:8192].softmax(1) - F.one_hot(answers, 600)  # (N, V)
truth = undivided.double().T @ inputs.double() / 8192  # dloss/dw
kept = {
    "divided first": (undivided / 8192).half().float(),
    "divided last": undivided.half().float() / 8192,
}
for name, rows in kept.items():
    error = (rows.T @ inputs - truth).norm() / truth.norm()
    print(f"{name:13} error of the weight's gradient {error:.1e}")

# %% [markdown] id="debts-ours"
# Divided first, the numbers are gone before a scaler's factor comes. Ours keeps them undivided
# until backward, where the factor is known. Under autocast in float16, against the ordinary two
# calls:


# %% id="debts-run"
from onelayer.kernels.chunked import chunked_head_loss


def eager(x, w, b, t):
    return F.cross_entropy(F.linear(x, w, b), t)


for name, loss in (("eager", eager), ("fused", chunked_head_loss)):
    for factor in (1.0, 2.0**16):
        layer = onelayer.head()
        with torch.autocast("cpu", torch.float16):
            value = loss(inputs, layer.weight, layer.bias, answers)
        (value * factor).backward()
        error = (layer.weight.grad.double() / factor - truth).norm() / truth.norm()
        print(f"{name}, factor {factor:7.0f}: loss {str(value.dtype)[6:]}, error {error:.1e}")

# %% [markdown] id="debts-left"
# One debt is paid: sums and logits in float32, gradients undivided until the factor is known. Two
# are left for the last unit, where the loss becomes an operator that others install. It has to say
# what it does under autocast on each device, and its tests have to ask on both, as the lists
# differ.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - Exponent is range, fraction is distance. float16 dies of its range, bfloat16 pays by its
#   distance.
# - Rounding goes to the nearest, ties to even. Half an ulp, relative to the number, is at most a
#   constant; a sum stops where its half ulp reaches what is added, and an update below it is lost.
#   A float32 master or rounding by chance brings it back.
# - One kernel adds in float32 inside. What adds into a tensor has that tensor's dtype.
# - A factor on the loss moves gradients into float16's window; a GradScaler looks for its upper
#   end, and skips the steps in which it went too far. Unscale before you clip.
# - Autocast is a key above autograd, with lists for each device and a cache of casts. Whoever is on
#   no list gets what comes: an operator of your own registers, or is made of parts that do.
#
# Now do it by hand: [Lab 10](../labs/10_mixed_precision/10_mixed_precision.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - the formats and their rounding:
#   [`BFloat16.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/BFloat16.h#L100-L114),
#   [`Half.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/Half.h),
#   [`Float8_e4m3fn.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/Float8_e4m3fn.h#L206-L213)
# - in what a kernel adds up:
#   [`AccumulateType.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/AccumulateType.h#L150-L151),
#   and where a GPU's products may do less: [numerical
#   accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html)
# - autocast's key, policies, lists and cache:
#   [`DispatchKey.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKey.h#L331-L334),
#   [`autocast_mode.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.h#L415-L443),
#   [`autocast_mode.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp),
#   [`torch/amp/autocast_mode.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/autocast_mode.py)
# - the scaler:
#   [`grad_scaler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/amp/grad_scaler.py#L484)
# - an operator's autocast:
#   [`torch/library.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/library.py#L1067)
# - Adam's division:
#   [`adam.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/optim/adam.py#L544)
# - mixed precision as it was proposed: [arXiv 1710.03740](https://arxiv.org/abs/1710.03740);
#   bfloat16: [arXiv 1905.12322](https://arxiv.org/abs/1905.12322);
#   fp8: [arXiv 2209.05433](https://arxiv.org/abs/2209.05433)
#
# Between torch 2.11 and 2.15 autocast's API and the scaler's stay as they are. What `e4m3fn` makes
# of numbers beyond 448 is the one thing to look at again: run the cell of the eight bits.
