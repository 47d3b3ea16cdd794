"""A number and its unit are not parted by the end of a line; other words and code may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from book.no_break import NumbersWithTheirUnits, joined


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("passed, 4.1 s", "passed, 4.1~s"),
        ("449.8 MiB, 3 GB and 1.69 x", "449.8~MiB, 3~GB and 1.69~x"),
        ("20 us or 20 \u00b5s, 790 TFLOP and 3 %.", "20~us or 20~\u00b5s, 790~TFLOP and 3~%."),
        ("11 skipped, 12 students, 3 x-rays, x 4", "11 skipped, 12 students, 3 x-rays, x 4"),
        ("2 sx and s 4", "2 sx and s 4"),
    ],
)
def test_only_a_number_holds_its_unit(said: str, kept: str) -> None:
    assert joined(said) == kept.replace("~", "\u00a0")


def test_prose_is_joined_and_code_is_not() -> None:
    document = new_document("page")
    paragraph = nodes.paragraph("", "", nodes.Text("in 4.1 s: "), nodes.literal("", "sleep 3 s"))
    document += [paragraph, nodes.literal_block("", "took 5 s")]
    document.settings.env = SimpleNamespace(config=None)  # all that the transform's base asks for
    NumbersWithTheirUnits(document).run()
    assert [one.astext() for one in document.findall(nodes.Text)] == [
        "in 4.1\u00a0s: ",
        "sleep 3 s",
        "took 5 s",
    ]
