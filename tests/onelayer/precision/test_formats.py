"""The formats: their sizes against torch, and patterns there and back."""

import math

import pytest
import torch

from onelayer.precision.formats import FORMATS, in_groups, pattern_of, value_of

WITH_DTYPE = [form for form in FORMATS.values() if form.name != "tf32"]


@pytest.mark.parametrize("form", WITH_DTYPE, ids=lambda form: form.name)
def test_the_sizes_are_torchs(form):
    info = torch.finfo(form.dtype)
    assert form.bits == info.bits
    assert info.eps == 2.0**-form.fraction_bits
    smallest = 2 - 2 ** (form.exponent_bits - 1)  # the exponent of the smallest normal number
    assert info.smallest_normal == 2.0**smallest


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_a_pattern_comes_back(form):
    step = max(1, 2**form.bits // 997)
    for pattern in range(0, 2**form.bits, step):
        number = value_of(pattern, form)
        if not math.isnan(number):
            assert pattern_of(number, form) == pattern


def test_tf32_has_the_range_of_float32_and_ten_bits():
    tf32 = FORMATS["tf32"]
    assert value_of(pattern_of(1 + 2**-10, tf32), tf32) == 1 + 2**-10
    assert value_of(pattern_of(1 + 2**-11, tf32), tf32) == 1.0
    assert value_of(pattern_of(1e38, tf32), tf32) == pytest.approx(1e38, rel=2**-11)


def test_the_bits_in_groups():
    assert in_groups(0x3F80, FORMATS["bf16"]) == "0 01111111 0000000"
    assert in_groups(0xBC00, FORMATS["fp16"]) == "1 01111 0000000000"
