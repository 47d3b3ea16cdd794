"""show_timeline: its model against torch and a slow simulation, and its page."""

import heapq

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.pipelining import schedules

import onelayer
from onelayer.distributed.rank_log import Collective, Computed, RankLog, ring_bytes
from onelayer.distributed.timeline import TimelineView
from onelayer.drawing.played import script_of
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

SOURCE = script_of(TimelineView)


@pytest.fixture(scope="module")
def js():
    return Script(TimelineView)


# ---- A slow simulation: every rank is a program, the wires are one event queue.


class Ranks:
    """Programs that compute, issue communication and wait for it, moved by a queue of events."""

    def __init__(self, view, ranks):
        self.view, self.ranks = view, ranks
        self.now, self.events, self.bars = 0.0, [], []
        self.wires = [[] for _ in range(ranks)]  # issued and not begun
        self.busy = [False] * ranks
        self.done, self.waiting, self.count = set(), {}, 0

    def at(self, time, action):
        self.count += 1
        heapq.heappush(self.events, (time, self.count, action))

    def bar(self, rank, lane, kind, name, time):
        start = self.now
        self.bars.append((rank, lane, kind, name, round(start, 6), round(start + time, 6)))

    def issue(self, rank, kind, name, nbytes, *, key, alone=False):
        self.wires[rank].append((kind, name, nbytes, key, alone))
        self.at(self.now, self.wires_move)

    def wires_move(self):
        for rank, wire in enumerate(self.wires):
            if not wire or self.busy[rank]:
                continue
            key, alone = wire[0][3], wire[0][4]
            members = [rank] if alone else list(range(self.ranks))
            if any(
                self.busy[r] or not self.wires[r] or self.wires[r][0][3] != key for r in members
            ):
                continue
            for r in members:
                kind, name, nbytes, _, _ = self.wires[r].pop(0)
                time = self.view["latency"] + nbytes / self.view["speed"]
                self.busy[r] = True
                self.bar(r, "network", kind, name, time)
                self.at(self.now + time, lambda r=r, key=key: self.arrived(r, key))

    def arrived(self, rank, key):
        self.busy[rank] = False
        self.tell((rank, key))
        self.at(self.now, self.wires_move)

    def tell(self, event):
        self.done.add(event)
        for program, rank in self.waiting.pop(event, []):
            self.step(program, rank)

    def step(self, program, rank):
        """Runs a program until it computes or waits for what has not come."""
        for request in program:
            if request[0] == "compute":
                _, kind, name, time = request
                self.bar(rank, "compute", kind, name, time)
                self.at(self.now + time, lambda: self.step(program, rank))
                return
            if request[1] not in self.done:
                self.waiting.setdefault(request[1], []).append((program, rank))
                return

    def run(self, program):
        for rank in range(self.ranks):
            self.at(0.0, lambda rank=rank: self.step(program(self, rank), rank))
        while self.events:
            self.now, _, action = heapq.heappop(self.events)
            action()
        assert not any(self.wires)
        assert not self.waiting
        return sorted(self.bars)


def pace(view, rank):
    return 1.5 if rank == view["slow"] else 1.0


def ddp(sim, rank):
    view, layers = sim.view, sim.view["layers"]
    slow = pace(view, rank)
    for i, layer in enumerate(layers):
        yield "compute", "forward", f"{i + 1}", slow * layer["time"]
    held, bucket, limits = 0, 0, view["caps"]
    for i in reversed(range(len(layers))):
        yield "compute", "backward", f"{i + 1}", slow * 2 * layers[i]["time"]
        held += layers[i]["bytes"]
        if (held >= limits[min(bucket, 1)] or i == 0) and sim.ranks > 1:
            bucket += 1
            nbytes = 2 * held * (sim.ranks - 1) / sim.ranks
            sim.issue(rank, "all-reduce", f"{bucket}", nbytes, key=f"bucket {bucket}")
            held = 0


def fsdp(sim, rank):
    view, layers = sim.view, sim.view["layers"]
    slow, last, alone = pace(view, rank), len(layers) - 1, sim.ranks == 1

    def gather(i, key):
        if 0 <= i <= last and not alone:
            nbytes = layers[i]["bytes"] * (sim.ranks - 1) / sim.ranks
            sim.issue(rank, "all-gather", f"{i + 1}", nbytes, key=f"{key} {i}")

    def wait(i, key):
        return ("wait", (rank, f"{key} {i}"))

    gather(0, "forward")
    for i, layer in enumerate(layers):
        if not alone:
            yield wait(i, "forward")
        gather(i + 1, "forward")
        yield "compute", "forward", f"{i + 1}", slow * layer["time"]
    if view["reshard"]:
        gather(last, "backward")
    for i in reversed(range(len(layers))):
        if view["reshard"] and not alone:
            yield wait(i, "backward")
            gather(i - 1, "backward")
        yield "compute", "backward", f"{i + 1}", slow * 2 * layers[i]["time"]
        if not alone:
            nbytes = layers[i]["bytes"] * (sim.ranks - 1) / sim.ranks
            sim.issue(rank, "reduce-scatter", f"{i + 1}", nbytes, key=f"scatter {i}")


def torchs_order(way, stage, ranks, parts):
    """What torch's own schedule has its stage do, in order, as ("F" or "B", micro-batch)."""
    did = []

    class Enough(Exception):
        """Everything has gone back; what follows is no work of the stage's."""

    class Stage:
        stage_index = stage

        def forward_one_chunk(self, part, *args, **kwargs):
            did.append(("F", part))

        def backward_one_chunk(self, part, *args, **kwargs):
            did.append(("B", part))
            if len(did) == 2 * parts:
                raise Enough

        def __getattr__(self, name):  # no sends and no receives
            return lambda *args, **kwargs: []

    kind = schedules.ScheduleGPipe if way == "gpipe" else schedules.Schedule1F1B
    schedule = object.__new__(kind)
    schedule._stage, schedule._num_stages = Stage(), ranks
    schedule._n_microbatches = parts
    schedule._check_inputs = lambda *args: ([()] * parts, [{}] * parts)
    for name in ("_initialize_stage", "_maybe_compute_loss", "_maybe_get_loss"):
        setattr(schedule, name, lambda *args: None)
    with pytest.raises(Enough):
        schedule._step_microbatches()
    return did


def pipeline(sim, rank):
    view, ranks, parts = sim.view, sim.ranks, sim.view["parts"]
    mine = torch.arange(len(view["layers"])).tensor_split(ranks)[rank].tolist()
    forward = pace(view, rank) * sum(view["layers"][i]["time"] for i in mine) * ranks / parts
    for step, part in torchs_order(view["way"], rank, ranks, parts):
        before, behind = (rank - 1, rank + 1) if step == "F" else (rank + 1, rank - 1)
        if 0 <= before < ranks:
            yield "wait", (before, f"{step}{part}")
        name, cost = {"F": ("forward", 1), "B": ("backward", 2)}[step]
        yield "compute", name, f"{part + 1}", cost * forward
        if 0 <= behind < ranks:
            nbytes = view["activation"] * ranks / parts
            sim.issue(rank, "send", f"{part + 1}", nbytes, key=f"{step}{part}", alone=True)


PROGRAMS = {"ddp": ddp, "fsdp": fsdp, "gpipe": pipeline, "1f1b": pipeline}


@st.composite
def views(draw, ways=tuple(PROGRAMS)):
    way = draw(st.sampled_from(ways))
    time, nbytes = st.integers(0, 12), st.integers(0, 40)
    layers = draw(st.lists(st.tuples(time, nbytes), min_size=1, max_size=7))
    ranks = draw(st.integers(1, 5))
    return {
        "way": way,
        "ranks": ranks,
        "layers": [{"time": float(t), "bytes": n} for t, n in layers],
        "caps": [draw(st.integers(1, 30)), draw(st.integers(1, 90))],
        "parts": draw(st.integers(1, 7)),
        "speed": draw(st.sampled_from([0.5, 1.0, 4.0])),
        "latency": draw(st.sampled_from([0.0, 0.25])),
        "activation": draw(st.integers(0, 8)),
        "slow": draw(st.integers(-1, ranks - 1)),
        "reshard": draw(st.booleans()),
        "recorded": [],
        "at": None,
    }


def drawn(js, view):
    keys = ("rank", "lane", "kind", "name")
    return sorted(
        (*(bar[key] for key in keys), round(bar["start"], 6), round(bar["end"], 6))
        for bar in js("bars", view)
    )


class TestAgainstASlowSimulation:
    @settings(max_examples=400)
    @given(view=views())
    def test_every_bar_is_where_the_simulation_puts_it(self, js, view):
        ranks = js("ranksOf", view)
        assert drawn(js, view) == Ranks(view, ranks).run(PROGRAMS[view["way"]])

    @settings(max_examples=200)
    @given(view=views())
    def test_the_numbers_are_those_of_moments_counted_one_by_one(self, js, view):
        view |= {"speed": 1.0, "latency": 0.0, "ranks": 2, "slow": -1, "parts": 2, "activation": 2}
        view["layers"] = [
            {"time": layer["time"], "bytes": 2 * layer["bytes"]} for layer in view["layers"]
        ]  # every bar begins and ends at a whole number
        bars, numbers = js("bars", view), js("measure", view)
        ranks, span = js("ranksOf", view), round(max(bar["end"] for bar in bars))

        def moments(rank, lane):
            mine = [bar for bar in bars if (bar["rank"], bar["lane"]) == (rank, lane)]
            return {t for bar in mine for t in range(round(bar["start"]), round(bar["end"]))}

        compute = [moments(rank, "compute") for rank in range(ranks)]
        network = [moments(rank, "network") for rank in range(ranks)]
        busy, sending = sum(map(len, compute)), sum(map(len, network))
        hidden = sum(len(a & b) for a, b in zip(compute, network, strict=True))
        assert numbers["span"] == pytest.approx(span)
        assert numbers["idle"] == pytest.approx(1 - busy / (span * ranks) if span else 0)
        assert numbers["network"] == pytest.approx(sending)
        assert numbers["hidden"] == pytest.approx(hidden / sending if sending else 0)

    def test_another_schedule_would_be_noticed(self, js):
        """The oracle is able to say no."""
        view = onelayer.show_timeline("1f1b", ranks=3, parts=4).view
        other = view | {"way": "gpipe"}
        assert drawn(js, view) != Ranks(other, 3).run(pipeline)


class TestAgainstTorch:
    @settings(max_examples=300)
    @given(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12),
        caps=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    )
    def test_buckets_are_those_of_the_reducer(self, js, sizes, caps):
        tensors = [torch.empty(size) for size in sizes]
        assigned, _ = dist._compute_bucket_assignment_by_size(
            tensors, list(caps), [], list(range(len(sizes)))
        )
        assert js("buckets", [4 * size for size in sizes], caps) == assigned

    @pytest.mark.parametrize("way", ["gpipe", "1f1b"])
    @pytest.mark.parametrize("ranks", range(1, 6))
    @pytest.mark.parametrize("parts", [1, 2, 4, 5, 9])
    def test_a_stage_works_in_the_order_of_torchs_schedule(self, js, way, ranks, parts):
        for stage in range(ranks):
            mine = [tuple(step) for step in js("order", way, stage, ranks, parts)]
            assert mine == torchs_order(way, stage, ranks, parts)

    @pytest.mark.parametrize(("count", "ranks"), [(8, 4), (7, 3), (5, 5), (9, 2), (1, 1)])
    def test_stages_are_cut_as_tensor_split_cuts(self, js, count, ranks):
        cut = [part.tolist() for part in torch.arange(count).tensor_split(ranks)]
        assert js("stages", count, ranks) == cut

    @pytest.mark.parametrize("ranks", [1, 2, 7])
    def test_a_ring_sends_what_the_recording_says(self, js, ranks):
        for kind in ("all-reduce", "all-gather", "reduce-scatter"):
            counted = ring_bytes(kind.replace("-", "_"), 84, ranks)
            assert js("ring", kind, 84, ranks) == counted


class TestWhatItTeaches:
    @pytest.mark.parametrize("way", ["gpipe", "1f1b"])
    @pytest.mark.parametrize(("ranks", "parts"), [(2, 2), (4, 4), (4, 8), (3, 9), (8, 8)])
    def test_the_bubble_is_that_of_the_formula_where_sends_are_free(self, js, way, ranks, parts):
        view = onelayer.show_timeline(way, ranks=ranks, parts=parts, layers=[(1.0, 4)] * 8).view
        view |= {"activation": 0, "latency": 0, "layers": view["layers"][:1] * ranks}
        assert js("measure", view)["idle"] == pytest.approx((ranks - 1) / (parts + ranks - 1))

    def test_one_forward_one_backward_keeps_fewer_micro_batches(self, js):
        view = onelayer.show_timeline("gpipe", ranks=4, parts=8).view
        assert js("inFlight", view, 4) == [8] * 4
        assert js("inFlight", view | {"way": "1f1b"}, 4) == [4, 3, 2, 1]

    def test_what_is_sent_and_kept(self, js):
        view = onelayer.show_timeline("ddp", ranks=4, layers=[(1.0, 4000)] * 3).view
        bytes_of = {"ddp": (2, 12_000), "fsdp": (3, 3_000)}
        for way, (turns, kept) in bytes_of.items():
            now = view | {"way": way}
            assert js("measure", now)["sent"] == [turns * 12_000 * 3 / 4] * 4
            assert js("parameters", now) == [kept] * 4
        held = view | {"way": "fsdp", "reshard": False}
        assert js("measure", held)["sent"] == [2 * 9000] * 4
        assert js("parameters", view | {"way": "gpipe"}) == [4000] * 3

    def test_one_bucket_hides_nothing(self, js):
        view = onelayer.show_timeline("ddp").view
        assert js("measure", view)["hidden"] > 0
        assert js("measure", view | {"caps": [2**40, 2**40]})["hidden"] == 0


def logs():
    """Two ranks that computed, sent and waited, as a recording says it."""
    call = Collective("all_reduce", 400, 400, 2, "cpu", "MainThread", 105.0, 109.0, (106.0, 109.5))
    unseen = Collective("broadcast", 400, 200, 2, "cuda", "MainThread", 101.0)
    work = [Computed("addmm", 3, 100.0, 105.5)]
    return [RankLog(0, "gloo", [unseen, call], work), RankLog(1, "gloo", [call], work)]


class TestPython:
    def test_what_was_recorded_becomes_bars(self, js):
        view = onelayer.show_timeline(logs())
        assert repr(view) == "2 ranks in 9.5 ms: 2 collectives, 2 stretches of compute"
        first = [bar for bar in js("bars", view.view) if bar["rank"] == 0]
        assert [(b["lane"], b["kind"], b["start"], b["end"]) for b in first] == [
            ("compute", "operators", 0, 5.5),
            ("network", "all_reduce", 5, 9),
            ("wait", "wait", 6, 9.5),
        ]
        numbers = js("measure", view.view)
        assert (numbers["hidden"], numbers["sent"]) == (pytest.approx(0.5 / 4), [400, 400])
        assert [js("told", bar, "recorded") for bar in first] == [
            "addmm and 2 more",
            "all-reduce, 400 bytes",
            "waits for all-reduce",
        ]

    def test_a_label_has_the_room_that_bars_over_its_own_leave(self, js):
        def bar(start, end, lane="network"):
            return {"lane": lane, "start": start, "end": end}

        over = [bar(12, 20), bar(2, 4, "compute")]
        assert js("uncovered", bar(0, 10), []) == [0, 10]
        assert js("uncovered", bar(0, 10), [*over, bar(6, 12), bar(8, 20)]) == [0, 6]
        assert js("uncovered", bar(0, 10), [bar(-5, 3), bar(7, 8)]) == [3, 7]
        assert js("uncovered", bar(0, 10), [bar(0, 10)]) == [10, 10]
        assert js("uncovered", bar(3, 9, "wait"), [bar(0, 5, "compute")]) == [5, 9]

    def test_text_says_the_way(self):
        assert repr(onelayer.show_timeline("fsdp", ranks=2)) == "fsdp on 2 ranks, 8 layers"
        assert repr(onelayer.show_timeline("1f1b")).endswith("8 layers, 8 micro-batches")

    @pytest.mark.parametrize(
        ("way", "options", "says"),
        [
            ("zero", {}, "knows ddp, fsdp, gpipe, 1f1b"),
            ("ddp", {"ranks": 9}, "1 to 8 ranks"),
            ("ddp", {"layers": []}, "1 to 16 layers"),
            ("gpipe", {"parts": 0}, "1 to 16 parts"),
            ("ddp", {"layers": [(-1.0, 4)]}, "less than 0"),
            ("ddp", {"bucket_cap_mb": 0}, "hold nothing"),
            ([], {}, "these logs hold nothing"),
        ],
    )
    def test_what_is_no_timeline_is_said(self, way, options, says):
        with pytest.raises(ValueError, match=says):
            onelayer.show_timeline(way, **options)

    def test_html_is_one_piece_that_fetches_nothing(self):
        expect_one_piece(onelayer.show_timeline("ddp").html(), text="ddp on 4 ranks")

    def test_without_anywidget_it_is_the_html(self):
        expect_html_without_anywidget(
            "view = onelayer.show_timeline('ddp')",
        )


def crowded():
    """A rank that sends the next tensor before the last one has arrived."""
    sent = [(10, 24), (15, 40), (38, 60), (41, 44), (43, 79), (44, 78), (60, 100)]
    calls = [
        Collective("all_reduce", 4, 4, 2, "cpu", "MainThread", start, end, None)
        for start, end in sent
    ]
    return [RankLog(0, "gloo", calls, [Computed("addmm", 3, 0.0, 100.0)])]


SEEN = """spans => spans.map((span) => {
  const text = document.createRange();
  text.selectNodeContents(span);
  const { left, right, top, bottom } = text.getBoundingClientRect();
  const at = (x) => document.elementFromPoint(x, (top + bottom) / 2);
  return [left + 1, (left + right) / 2, right - 1].filter((x) => at(x) === span).length;
})"""
"""Of how many of three places of each label: all of them, or none."""


class TestInABrowser:
    def test_a_label_is_whole_or_not_there(self, browser, tmp_path):
        html = onelayer.show_timeline(crowded()).html()
        with shown(browser, tmp_path, html) as page:
            bars = page.locator(".ol-timeline .network:not(i)")
            for width, names in ((900, 2), (360, 1)):
                page.set_viewport_size({"width": width, "height": 700})
                seen = bars.evaluate_all(SEEN)
                assert set(seen) <= {0, 3}, width
                assert seen.count(3) >= names, width

    def test_choose_change_and_read_by_keyboard_on_a_phone(self, browser, tmp_path):
        html = onelayer.show_timeline("ddp").html() + onelayer.show_timeline(logs()).html()
        with shown(browser, tmp_path, html) as page:
            view = page.locator(".ol-timeline").first
            numbers = view.locator(".numbers")
            assert view.locator(".rank").count() == 4
            assert view.get_by_role("button", name="recorded").count() == 0
            view.get_by_role("button", name="more bucket size").press("Enter")
            assert numbers.inner_text().split("buckets\n")[1].strip() == "1"
            assert "0 %" in numbers.inner_text().split("communication behind compute\n")[1][:5]
            view.get_by_role("button", name="GPipe").press("Enter")
            assert "8 of 8" in numbers.inner_text()
            assert "27 %" in numbers.inner_text()
            view.get_by_role("button", name="1F1B").press("Enter")
            assert "4 of 8" in numbers.inner_text()
            view.get_by_role("button", name="FSDP").press("Enter")
            view.get_by_role("slider").press("End")
            assert "rank 3: nothing" in view.get_by_role("status").inner_text()
            view.get_by_role("slider").press("Home")
            assert "rank 0: all-gather of layer 1" in view.get_by_role("status").inner_text()
            slow = view.get_by_role("button", name="rank 1 is slow")
            slow.press("Enter")
            assert slow.get_attribute("aria-pressed") == "true"
            recorded = page.locator(".ol-timeline").nth(1)
            assert recorded.locator(".rank").count() == 2
            assert recorded.get_by_role("button", name="less ranks").count() == 0
