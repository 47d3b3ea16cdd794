"""What crosses between a check and a student's function comes through whole, or not at all."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.judge import (
    Draw,
    Malformed,
    Packed,
    Unsendable,
    pack,
    storage_of,
    text,
    unpack,
    values,
)
from autograder.judge.values import DTYPES, MAX_INT

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-MAX_INT, MAX_INT), st.floats(), st.text(max_size=50)
)
keys = st.one_of(st.text(max_size=5), st.integers(-9, 9), st.tuples(st.booleans()))
plain = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=20,
)


def through(value: Any) -> Any:
    packed = pack(value)
    tree = json.loads(json.dumps(packed.tree))  # as it would travel
    return unpack(tree, [storage_of(data) for data in packed.storages])


@given(plain)
def test_plain_data_comes_through(value: Any) -> None:
    assert repr(through(value)) == repr(value)


@given(st.integers(0, 10_000), st.sampled_from(sorted(DTYPES)))
def test_tensors_keep_size_stride_offset_and_values(seed: int, dtype: str) -> None:
    draw = Draw(seed)
    t = draw.tensor(*draw.shape(low=0), dtype=DTYPES[dtype], layout=draw.layout())
    got = through(t)
    assert got.shape == t.shape
    assert got.dtype == t.dtype
    assert (got.stride(), got.storage_offset()) == (t.stride(), t.storage_offset())
    assert got.equal(t)


def test_two_views_of_one_storage_stay_two_views_of_one_storage() -> None:
    x = torch.arange(12.0).view(3, 4)
    a, b = through([x, x.T])
    a[0, 1] = -1
    assert b[1, 0] == -1
    assert x[0, 1] == 1


def test_a_result_over_a_known_storage_names_it_and_ships_no_byte() -> None:
    x = torch.arange(12.0)
    packed = pack(x.unfold(0, 3, 1), [x.untyped_storage()])
    assert packed.storages == ()
    assert unpack(packed.tree, [], [x.untyped_storage()]).data_ptr() == x.data_ptr()


def test_requires_grad_travels_and_conjugates_are_resolved() -> None:
    w, z = torch.ones(2, requires_grad=True), torch.tensor([1 + 2j]).conj()
    got_w, got_z = through((w, z))
    assert got_w.requires_grad
    assert got_z.tolist() == [1 - 2j]


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "value",
    [
        object(),
        iter([]),
        itertools.count(),
        (n for n in itertools.count()),
        {1, 2},
        2**64,
        "x" * 100_001,
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
        torch.ones(2).as_subclass(Subclass),
        [[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]],
        list(range(20_001)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_answer_is_refused(value: Any) -> None:
    with pytest.raises(Unsendable):
        pack(value)


def test_more_bytes_than_allowed_are_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.judge.values.MAX_BYTES", 16)
    with pytest.raises(Unsendable):
        pack(torch.ones(5))
    with pytest.raises(Malformed):
        storage_of(bytes(17))


def tensor_tree(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "storage": 0,
        "dtype": "float32",
        "offset": 0,
        "size": [2, 2],
        "stride": [2, 1],
        "requires_grad": False,
    }
    return {"x": list((fields | changes).values())}


@pytest.mark.parametrize(
    "tree",
    [
        tensor_tree(storage=1),
        tensor_tree(storage=-1),
        tensor_tree(storage=True),
        tensor_tree(storage="0"),
        tensor_tree(dtype="float99"),
        tensor_tree(dtype=None),
        tensor_tree(offset=1),
        tensor_tree(offset=-1),
        tensor_tree(size=[2, 3]),
        tensor_tree(size=[-2, 2]),
        tensor_tree(size=[2]),
        tensor_tree(size="22"),
        tensor_tree(size=[2**62, 4], stride=[0, 0]),
        tensor_tree(stride=[2**62, 2**62]),
        tensor_tree(size=[1] * 17, stride=[0] * 17),
        tensor_tree(requires_grad=1),
        tensor_tree(dtype="int32", requires_grad=True),
        {"x": [0]},
        {"x": {}},
        {"y": 1},
        {"t": 1},
        {"d": [[1]]},
        {"d": [[{"f": "0x1p0"}, 1]]},
        {"d": [[{"t": [[]]}, 1]]},
        {"slice": [1, 2]},
        {"f": "one"},
        {"f": 1},
        {"f": "0x1p99999"},
        {"dtype": "object"},
        2**63,
        1.5,
        "x" * 100_001,
        [[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]],
        {},
        {"t": [], "d": []},
    ],
    ids=lambda tree: json.dumps(tree)[:60],
)
def test_a_forged_tree_is_refused(tree: Any) -> None:
    with pytest.raises(Malformed):
        unpack(tree, [storage_of(bytes(16))])


json_values = st.recursive(
    st.one_of(scalars, st.sampled_from(["float32", "x", "t", "d", "f"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=7),
        st.dictionaries(st.sampled_from(["x", "t", "d", "f", "slice", "dtype", "q"]), inner),
    ),
    max_leaves=30,
)


@pytest.mark.slow
@settings(max_examples=400)
@given(json_values)
def test_no_tree_does_more_than_be_refused(tree: Any) -> None:
    """Fuzz: a value, or Malformed; no other exception, and nothing outside the storage is read."""
    try:
        value = unpack(tree, [storage_of(bytes(64))])
    except Malformed:
        return
    repr(value)


@settings(max_examples=400)
@given(
    st.lists(st.integers(-2, 9), max_size=4),
    st.lists(st.integers(-2, 9), max_size=4),
    st.integers(-2, 20),
)
def test_every_tensor_that_is_built_lies_inside_its_storage(
    size: list[int], stride: list[int], offset: int
) -> None:
    tree = tensor_tree(size=size, stride=stride, offset=offset)
    try:
        t = unpack(tree, [storage_of(bytes(64))])
    except Malformed:
        return
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    assert t.numel() == 0 or 4 * (last + 1) <= 64
    assert math.prod(size) == t.numel()


def test_packed_is_json_even_for_nan_and_infinity() -> None:
    tree = pack([math.nan, math.inf, -0.0]).tree
    assert "NaN" not in json.dumps(tree, allow_nan=False)
    assert Packed(tree).storages == ()


def nested(depth: int) -> Any:
    """A list in a list, `depth` of them, with a number in the innermost."""
    return 0 if depth == 0 else [nested(depth - 1)]


AT_THE_LIMIT = {
    "text": ("x" * 100_000, "x" * 100_001),
    "text with an accent": ("é" * 100_000, "é" * 100_001),
    "integer": (2**63 - 1, 2**63),
    "negative integer": (1 - 2**63, -(2**63)),
    "parts": ([0] * 19_999, [0] * 20_000),
    "parts of parts": ([[0] * 19_998], [[0] * 19_999]),
    "parts beside parts": ([[0] * 9_999, [0] * 9_998], [[0] * 9_999, [0] * 9_999]),
    "depth": (nested(16), nested(17)),
}


@pytest.mark.parametrize(("most", "over"), AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_the_limits_are_the_same_on_both_sides(most: Any, over: Any) -> None:
    assert through(most) == most
    with pytest.raises(Unsendable):
        pack(over)
    with pytest.raises(Malformed):
        unpack(over, [])


@pytest.mark.parametrize(
    "pairs", [[(0, 0)] * 6_666, [(k, k) for k in range(6_666)]], ids=["equal", "different"]
)
def test_a_dict_counts_by_its_keys_and_values(pairs: list[tuple[int, int]]) -> None:
    """Each pair is a list of two; what is sent twice counts twice."""
    tree = {"d": [list(pair) for pair in pairs]}
    assert unpack(tree, []) == dict(pairs)
    with pytest.raises(Malformed):
        unpack({"d": tree["d"] * 2}, [])
    with pytest.raises(Unsendable):
        pack({k: k for k in range(20_000)})


def test_an_empty_list_may_lie_deepest() -> None:
    value: Any = []
    for _ in range(16):
        value = [value]
    assert through(value) == value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (object(), text("unsendable.kind", kind="object")),
        (2**64, text("unsendable.integer")),
        ("x" * 100_001, text("unsendable.long", characters=100_001)),
        ("\ud800", text("unsendable.surrogates")),
        (nested(17), text("unsendable.nested")),
        (torch.float8_e5m2, text("unsendable.dtype", dtype="torch.float8_e5m2")),
        (torch.ones(2).as_subclass(Subclass), text("unsendable.subclass", kind="Subclass")),
        (
            torch.ones(2, device="meta"),
            text("unsendable.layout", layout="torch.strided", device="meta"),
        ),
        (
            torch.eye(2).to_sparse(),
            text("unsendable.layout", layout="torch.sparse_coo", device="cpu"),
        ),
    ],
)
def test_why_it_does_not_cross_is_data(value: Any, what: Any) -> None:
    with pytest.raises(Unsendable) as refused:
        pack([value])
    assert refused.value.what == what
    assert str(refused.value) == str(what)


@pytest.mark.filterwarnings("ignore:.*quantiz.*")
def test_quantized_numbers_are_no_floats() -> None:
    with pytest.raises(Unsendable):
        pack(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))


@pytest.mark.parametrize(
    ("value", "comes"),
    [
        (range(3), [0, 1, 2]),
        (map(abs, [-1, 2]), [1, 2]),
        (zip([1], [2], strict=True), [(1, 2)]),
        (filter(None, [0, 1]), [1]),
        (slice(1, None, 2), slice(1, None, 2)),
        (Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.bool_(True), True),
        ({(1, "a"): 2, True: 3}, {(1, "a"): 2, True: 3}),
        (torch.bfloat16, torch.bfloat16),
        ("ñ", "ñ"),
        ([(), {}, []], [(), {}, []]),
    ],
)
def test_what_comes_of_other_kinds(value: Any, comes: Any) -> None:
    got = through(value)
    assert got == comes
    assert type(got) is type(comes)


def test_kinds_of_their_own_are_sent_as_what_they_are() -> None:
    class Word(str):
        pass

    class Number(int):
        pass

    for value, kind in ((Word("a"), str), (Number(3), int)):
        assert type(pack(value).tree) is kind
        assert type(pack([value]).tree[0]) is kind
    assert pack([Number(MAX_INT)]).tree == [MAX_INT]
    with pytest.raises(Unsendable):
        pack(np.array([object()]))


class Itemized:
    """As numpy's numbers it has an `item`, and is none."""

    item = 3

    def tolist(self) -> int:
        return 3


@pytest.mark.parametrize("value", [Itemized(), np.vectorize(abs)])
def test_what_only_looks_like_numpys_is_none(value: Any) -> None:
    with pytest.raises(Unsendable) as refused:
        pack([value])
    assert refused.value.what == text("unsendable.kind", kind=type(value).__name__)


def test_an_array_lies_as_deep_as_its_list_and_one_more() -> None:
    def inside(lists: int) -> Any:
        return np.array([1]) if lists == 0 else [inside(lists - 1)]

    assert repr(through(inside(14))) == "[" * 15 + "1" + "]" * 15
    with pytest.raises(Unsendable):
        pack(inside(15))


def test_of_an_endless_generator_no_more_is_taken_than_could_be_sent() -> None:
    numbers = itertools.count()
    with pytest.raises(Unsendable):
        pack(n for n in numbers)
    assert next(numbers) == 20_000


def test_the_dtypes_that_travel() -> None:
    floats = ["bfloat16", "float16", "float32", "float64", "complex64", "complex128"]
    whole = ["bool", "uint8", "int8", "int16", "int32", "int64"]
    assert sorted(DTYPES) == sorted(floats + whole)
    assert all(str(dtype) == f"torch.{name}" for name, dtype in DTYPES.items())


def test_packed_is_its_tree_and_its_bytes() -> None:
    x = torch.ones(2)
    assert pack(x) == pack(x.clone()) != pack(x + 1)
    assert "owned" not in repr(pack(x))


def test_a_parameter_is_a_tensor() -> None:
    got = through(torch.nn.Parameter(torch.ones(2)))
    assert type(got) is torch.Tensor
    assert got.requires_grad


def test_a_negated_view_comes_as_its_numbers() -> None:
    z = torch.tensor([1 + 2j]).conj().imag
    assert z.is_neg()
    assert through(z).tolist() == [-2.0]


def test_tensors_without_elements_share_nothing() -> None:
    empty, known = torch.empty(0), torch.empty(0)
    packed = pack([empty, torch.empty(0, 3), torch.ones(1)], [known.untyped_storage()])
    assert [len(data) for data in packed.storages] == [0, 0, 4]
    assert [one["x"][0] for one in packed.tree] == [0, 1, 2]


def test_one_storage_travels_once_and_is_kept_alive() -> None:
    x, y = torch.arange(4.0), torch.ones(2)
    packed = pack([x, y, x[1:], y])
    assert [one["x"][0] for one in packed.tree] == [0, 1, 0, 1]
    assert list(map(len, packed.storages)) == [16, 8]
    assert [s.data_ptr() for s in packed.owned] == [x.data_ptr(), y.data_ptr()]


@pytest.mark.parametrize(
    ("first", "many", "number", "offset"),
    [(0, 8, -2, 0), (1, 7, -2, 1), (1, 2, -2, 1), (3, 5, -2, 3), (7, 1, -2, 7)],
)
def test_memory_that_begins_inside_a_known_storage_is_that_storage(
    first: int, many: int, number: int, offset: int
) -> None:
    other, known = torch.arange(3.0), torch.arange(8.0)
    inside = torch.from_numpy(known.numpy()[first : first + many])
    packed = pack(inside, [other.untyped_storage(), known.untyped_storage()])
    assert (packed.tree["x"][0], packed.tree["x"][2]) == (number, offset)
    assert packed.storages == ()


def test_a_place_is_found_to_the_byte() -> None:
    known = torch.arange(8, dtype=torch.uint8)
    first, second = pack([known[:], known[1:]]).tree
    assert (first["x"][2], second["x"][2]) == (0, 1)
    inside = torch.from_numpy(known.numpy()[1:4])
    packed = pack(inside, [known.untyped_storage()])
    assert (packed.tree["x"][0], packed.tree["x"][2]) == (-1, 1)


def test_memory_that_reaches_beyond_a_known_storage_is_another() -> None:
    whole = np.arange(8, dtype=np.float32)
    known = torch.from_numpy(whole[:4])
    for first, many in ((1, 4), (4, 2), (3, 2)):
        beyond = torch.from_numpy(whole[first : first + many])
        packed = pack(beyond, [known.untyped_storage()])
        assert (packed.tree["x"][0], packed.tree["x"][2]) == (0, 0)
        assert len(packed.storages) == 1


def test_elements_are_counted_however_few_bytes_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "MAX_ELEMENT_BYTES", 16)
    wide, one = torch.zeros(1).expand(4), torch.zeros(1)
    assert through(wide).tolist() == [0, 0, 0, 0]
    for value in (torch.zeros(1).expand(5), [wide, one], torch.zeros(1).double().expand(3)):
        with pytest.raises(Unsendable) as refused:
            pack(value)
        assert refused.value.what == text("unsendable.elements", mib=0)
    tree = tensor_tree(size=[4], stride=[0])
    assert unpack(tree, [storage_of(bytes(4))]).shape == (4,)
    one_more = tensor_tree(size=[1], stride=[0])
    for trees in (tensor_tree(size=[5], stride=[0]), [tree, one_more]):
        with pytest.raises(Malformed):
            unpack(trees, [storage_of(bytes(4))])


def test_all_storages_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_BYTES", 16)
    assert len(pack([torch.ones(2), torch.zeros(2)]).storages) == 2
    with pytest.raises(Unsendable) as refused:
        pack([torch.ones(2), torch.zeros(3)])
    assert refused.value.what == text("unsendable.tensors", mib=0)
    assert storage_of(bytes(16)).nbytes() == 16


def test_the_limits_are_told_in_mib() -> None:
    huge = torch.zeros(1).expand(values.MAX_ELEMENT_BYTES // 4 + 1)
    with pytest.raises(Unsendable) as refused:
        pack(huge)
    assert refused.value.what == text("unsendable.elements", mib=256)
    with pytest.raises(Unsendable) as refused:
        pack([torch.zeros(values.MAX_BYTES + 1, dtype=torch.int8)[:1]])
    assert refused.value.what == text("unsendable.tensors", mib=256)


def test_a_storage_that_is_empty_and_one_that_is_written() -> None:
    assert storage_of(b"").nbytes() == 0
    storage = storage_of(b"abc")
    storage[0] = 0
    assert bytes(storage) == b"\0bc"
    assert values.storage_bytes(storage) == b"\0bc"


def test_a_tensor_may_reach_the_last_byte_of_its_storage() -> None:
    data = [storage_of(np.arange(4, dtype=np.float32).tobytes())]
    for changes, numbers in (
        ({"size": [2], "stride": [3]}, [0, 3]),
        ({"size": [1], "stride": [9], "offset": 3}, [3]),
        ({"size": [], "stride": [], "offset": 3}, 3),
        ({"size": [0, 2], "stride": [9, 9], "offset": 9}, []),
        ({"size": [1] * 16, "stride": [0] * 16}, None),
    ):
        got = unpack(tensor_tree(**changes), data)
        assert numbers is None or got.tolist() == numbers
    for changes in (
        {"size": [2], "stride": [4]},
        {"size": [], "stride": [], "offset": 4},
        {"size": [2, 2], "stride": [2, 2], "offset": 1},
        {"size": [1] * 17, "stride": [0] * 17},
        {"size": [0, 2**62, 4], "stride": [0, 0, 0]},
        {"size": [0, MAX_INT + 1], "stride": [0, 0]},
    ):
        with pytest.raises(Malformed):
            unpack(tensor_tree(**changes), data)


def test_as_many_elements_as_64_bits_count_may_be_none() -> None:
    tree = tensor_tree(size=[0, MAX_INT], stride=[0, 0])
    assert unpack(tree, [storage_of(bytes(4))]).shape == (0, MAX_INT)


def test_a_storage_is_named_by_its_number() -> None:
    sent, known = storage_of(bytes(16)), storage_of(bytes(range(16)))
    for number, storage in ((0, sent), (-1, known)):
        got = unpack(tensor_tree(storage=number), [sent], [known])
        assert got.data_ptr() == storage.data_ptr()
    for number in (1, -2, 0.0, None, True):
        with pytest.raises(Malformed):
            unpack(tensor_tree(storage=number), [sent], [known])


@pytest.mark.parametrize(
    "tree",
    [
        "\ud800",
        {"d": [["\ud800", 1]]},
        {"d": {}},
        {"d": 1},
        {"d": [[1, 2, 3]]},
        {"d": [[None, 1]]},
        {"d": [[{"slice": [1, 2, 3]}, 1]]},
        {"slice": [1, 2, 3, 4]},
        {"slice": 3},
        {"t": "ab"},
        {"x": "abcdef"},
        {"x": [0, "float32", 0, [2, 2], [2, 1]]},
        {"f": None},
        {"dtype": 3},
        {"dtype": ["float32"]},
        (1, 2),
        tensor_tree(requires_grad=None),
        tensor_tree(size=None),
        tensor_tree(stride=3),
        tensor_tree(size={}, stride={}),
        tensor_tree(stride=[2]),
        tensor_tree(stride=[2, True]),
        tensor_tree(size=[2.0, 2]),
        tensor_tree(dtype="bool", requires_grad=True),
    ],
    ids=lambda tree: repr(tree)[:60],
)
def test_another_forged_tree_is_refused_in_words(tree: Any) -> None:
    with pytest.raises(Malformed, match=r"\w \w"):
        unpack(tree, [storage_of(bytes(16))])


@pytest.mark.parametrize("dtype", ["float16", "complex64"])
def test_whatever_has_fractions_may_require_a_gradient(dtype: str) -> None:
    tree = tensor_tree(dtype=dtype, size=[1], stride=[1], requires_grad=True)
    assert unpack(tree, [storage_of(bytes(16))]).requires_grad
