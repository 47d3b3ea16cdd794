"""What crosses between a check and a student's function comes through whole, or not at all."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.judge import Draw, Malformed, Packed, Unsendable, pack, storage_of, unpack
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
