"""A submission rebuilt: the answers survive any tool, and nothing else survives anybody."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.attacks.sample_class import (
    NAME,
    ROOT,
    added,
    cell_of,
    filled,
    released,
    right_answers,
)
from autograder.classroom.intake.rebuild import (
    MAX_CELLS,
    MAX_SOURCE,
    Ungradable,
    as_plain_text,
    notebook,
    rebuild,
    to_run,
)
from autograder.classroom.intake.release import releases

RELEASE = releases(ROOT)[NAME]
RIGHT = right_answers()
ANSWER = "def address(index, size, stride, offset):\n    return 41 + 1\n"


def data(made):
    return json.dumps(made).encode()


def without_ids(made):
    for cell in made["cells"]:
        del cell["id"], cell["metadata"]
    return made


def answered(made):
    """The answer to 1.2 that grading would see."""
    return rebuild(data(made), RELEASE).answers.get("address")


def test_cells_that_all_bear_one_id_are_named():
    """As a tool leaves them that copies metadata."""
    made = filled(right_answers())
    for cell in made["cells"]:
        cell["metadata"]["nbgrader"] = {"grade_id": "title"}
    with pytest.raises(Ungradable) as refused:
        rebuild(json.dumps(made).encode(), RELEASE)
    assert refused.value.note.startswith(f"{len(made['cells'])} cells bear one id, 'title'")


def test_the_released_notebook_is_known_to_this_test():
    assert Path(ROOT / "labs" / NAME / f"{NAME}.ipynb").read_bytes() == RELEASE.notebook
    assert ANSWER.split("\n")[0] in cell_of(released(), "address")["source"]


class TestAnAnswerIsFound:
    def test_where_it_was(self):
        assert rebuild(data(filled(RIGHT)), RELEASE).answers.items() >= RIGHT.items()

    def test_by_nbgraders_id_when_the_cells_own_was_rewritten(self):
        made = filled({"address": ANSWER})
        for number, cell in enumerate(made["cells"]):
            cell["id"] = f"colab-{number}"
        assert answered(made) == ANSWER

    def test_by_the_cells_id_when_metadata_were_lost(self):
        made = filled({"address": ANSWER})
        for cell in made["cells"]:
            cell["metadata"] = {}
        assert answered(made) == ANSWER

    def test_by_its_function_when_both_were_lost(self):
        made = filled({"address": ANSWER})
        for cell in made["cells"]:
            del cell["id"], cell["metadata"]
        assert answered(made) == ANSWER

    def test_with_a_syntax_error_in_it(self):
        made = filled({"address": ANSWER + "\n)"})
        for cell in made["cells"]:
            del cell["id"], cell["metadata"]
        assert answered(made) == ANSWER + "\n)"

    def test_when_the_cell_became_markdown_or_raw(self):
        for kind in ("markdown", "raw"):
            made = filled({"address": ANSWER})
            cell_of(made, "address")["cell_type"] = kind
            assert answered(made) == ANSWER

    def test_as_a_list_of_lines_and_with_windows_line_ends(self):
        made = filled({})
        cell_of(made, "address")["source"] = ["def address():\r\n", "    return 1\r\n"]
        assert answered(made) == "def address():\n    return 1\n"

    def test_when_cells_were_moved_and_added(self):
        made = filled({"address": ANSWER})
        made["cells"] = [added("mine", "x = 1"), *reversed(made["cells"])]
        assert answered(made) == ANSWER

    def test_beside_an_untouched_copy_of_the_stub(self):
        made = filled({"address": ANSWER})
        made["cells"].append({**cell_of(released(), "address"), "id": "old"})
        assert answered(made) == ANSWER

    def test_free_text_without_ids_by_the_question_before_it(self):
        made = filled({"why_silent": "Because."})
        for cell in made["cells"]:
            del cell["id"], cell["metadata"]
        assert rebuild(data(made), RELEASE).answers["why_silent"] == "Because."

    def test_free_text_in_several_cells_is_all_of_them(self):
        made = without_ids(filled({"why_silent": "Because."}))
        place = [cell["source"] for cell in made["cells"]].index("Because.") + 1
        made["cells"].insert(place, {"cell_type": "markdown", "source": "And also."})
        made["cells"].insert(place + 1, {"cell_type": "code", "source": "x = 1"})
        made["cells"].insert(place + 2, {"cell_type": "markdown", "source": "No more."})
        assert rebuild(data(made), RELEASE).answers["why_silent"] == "Because.\n\nAnd also."

    def test_by_the_id_that_colab_moves_into_the_metadata(self):
        made = filled({"address": "address = lambda *a: 1"})
        for cell in made["cells"]:
            cell["metadata"] = {"id": cell.pop("id")}
        assert answered(made) == "address = lambda *a: 1"

    def test_by_the_mark_of_its_stub_when_its_function_has_another_name(self):
        made = without_ids(filled({}))
        stub = cell_of(released(), "address")["source"]
        changed = stub.replace("def address(", "def adress(")
        cell = next(cell for cell in made["cells"] if cell["source"] == stub)
        cell["source"] = changed
        assert answered(made) == changed

    def test_by_the_function_that_is_asked_and_not_by_a_helper_in_its_stub(self):
        release = releases(ROOT)["02_dispatcher"]
        made = json.loads(release.notebook)
        made["cells"] = without_ids({"cells": deepcopy(release.cells)})["cells"]
        stub = {cell["id"]: cell["source"] for cell in release.cells}["run_head"]
        assert stub.index("def lose_the_favourite") < stub.index("def run_head")
        mine = {"cell_type": "code", "source": "def lose_the_favourite(): pass"}
        made["cells"].append(mine)
        assert rebuild(data(made), release).answers["run_head"] == stub

    def test_beside_a_copy_of_the_stub_that_a_tool_has_trimmed(self):
        made = without_ids(filled({"address": ANSWER}))
        stub = cell_of(released(), "address")["source"].replace("\n", "  \n") + "\n\n"
        made["cells"].append({"cell_type": "code", "source": stub})
        assert answered(made) == ANSWER

    def test_in_whatever_order_a_merge_left_the_cells(self):
        shuffled = without_ids(filled(RIGHT))
        random.Random(7).shuffle(shuffled["cells"])
        rebuilt = rebuild(data(shuffled), RELEASE)
        assert {k: v for k, v in rebuilt.answers.items() if k != "why_silent"} == RIGHT
        assert "10 answers had lost their ids" in rebuilt.notes[-1]

    def test_a_byte_order_mark_is_no_damage(self):
        assert (
            rebuild(b"\xef\xbb\xbf" + data(filled(RIGHT)), RELEASE).answers.items() >= RIGHT.items()
        )


def test_a_missing_cell_is_an_unanswered_question():
    made = filled(RIGHT)
    made["cells"] = [cell for cell in made["cells"] if cell["id"] != "address"]
    rebuilt = rebuild(data(made), RELEASE)
    assert "address" not in rebuilt.answers
    assert rebuilt.notes == ("cell address is missing",)
    assert dict(to_run(RELEASE, rebuilt))["address"] == cell_of(released(), "address")["source"]


def test_an_answer_in_a_cell_of_ones_own_is_not_taken_for_the_answer():
    made = released()
    made["cells"].append(added("mine", ANSWER))
    rebuilt = rebuild(data(made), RELEASE)
    assert "NotImplementedError" in rebuilt.answers["address"]
    assert "address" in rebuilt.left_out


def test_names_of_cells_that_are_not_graded_are_known():
    made = released()
    source = (
        "import numpy as np, os.path\nfrom math import prod, sqrt as root\n"
        "def f(): inner = 1\nasync def g(): pass\nclass C: pass\nx: int = 1\ny = x == 2\nx == 3\n"
    )
    made["cells"].append(added("mine", source))
    cell_of(made, "setup")["source"] += "\nimport scipy"
    left_out = rebuild(data(made), RELEASE).left_out
    assert {"np", "os", "prod", "root", "f", "g", "C", "x", "y", "scipy"} <= left_out
    assert not {"inner", "torch", "math"} & left_out


def test_a_bound_name_is_known_up_to_where_an_answer_may_reach():
    """What comes after so many characters is no cell that a person wrote."""
    made = released()
    before = rebuild(data(made), RELEASE).left_out
    far = "#" * (MAX_SOURCE - 8)
    source = f"near = 1\nimport os.path as p\n{far}\nlate = 1\nimport late_too\n"
    made["cells"].append(added("mine", source))
    assert rebuild(data(made), RELEASE).left_out - before == {"near", "p"}


def test_a_free_text_goes_where_its_question_stands():
    """Also where the question was moved; where only the question is left, nothing is answered."""
    made = without_ids(filled({"why_silent": "Because."}))
    place = [cell["source"] for cell in made["cells"]].index("Because.")
    moved = made["cells"][place - 1 : place + 1]
    end = {"cell_type": "code", "source": "x = 1"}
    made["cells"] = [*moved, end, *made["cells"][: place - 1], *made["cells"][place + 1 :]]
    assert rebuild(data(made), RELEASE).answers["why_silent"] == "Because."
    question = dict(made["cells"][0])
    made["cells"] += [question, {"cell_type": "markdown", "source": "Because of another thing."}]
    with pytest.raises(Ungradable, match="2 different cells claim to be the answer 'why_silent'"):
        rebuild(data(made), RELEASE)
    del made["cells"][-2:], made["cells"][1]
    rebuilt = rebuild(data(made), RELEASE)
    assert "why_silent" not in rebuilt.answers
    assert "cell why_silent is missing" in rebuilt.notes


def test_a_cell_that_is_none_is_passed_over_and_counted():
    """The instructor looks for it by its place."""
    made = filled({"address": ANSWER})
    place = [cell["id"] for cell in made["cells"]].index("address") + 5
    rival = {**cell_of(made, "address"), "source": ANSWER + "#"}
    made["cells"] = [None, "x", 3, rival, *made["cells"]]
    with pytest.raises(Ungradable) as raised:
        rebuild(data(made), RELEASE)
    assert raised.value.note == f"address stands in cell 4, {place}"


UNKNOWN = "no cell has an id, a function or a mark of this lab"


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        ([], UNKNOWN),
        ([{}, {}, {"id": ""}], UNKNOWN),
        ([{"id": "a"}, {"id": "b"}], UNKNOWN),
        ([{"id": ["x"]}, {"id": {"x": 1}}, {"id": 1}, {"id": 1}], UNKNOWN),
        (
            [{"id": "a"}, *[{"id": "b" * 70}] * 2, {}, {}, {}, {}],
            f"2 cells bear one id, '{'b' * 60}': a tool has copied it into all of them",
        ),
    ],
)
def test_the_instructor_is_told_why_no_answer_was_found(cells, note):
    with pytest.raises(Ungradable) as raised:
        rebuild(data({"cells": cells}), RELEASE)
    told = "None of the answers of 01_strides is in the notebook. Is it another lab's?"
    assert str(raised.value) == told
    assert raised.value.note == note


@pytest.mark.parametrize("metadata", [None, [], {"nbgrader": None}, {"nbgrader": {}}])
def test_metadata_of_another_shape_lose_nothing(metadata):
    made = filled({"address": "address = 1"})
    cell_of(made, "address")["metadata"] = metadata
    assert answered(made) == "address = 1"


def test_as_many_cells_and_as_long_an_answer_as_may_be_are_read():
    made = filled({"address": ANSWER + "#" * (MAX_SOURCE - len(ANSWER))})
    made["cells"] += [{}] * (MAX_CELLS - len(made["cells"]))
    assert len(answered(made)) == MAX_SOURCE


def test_an_answer_that_is_a_book_loses_itself_alone():
    made = filled({**RIGHT, "address": ANSWER + "#" * MAX_SOURCE, "why_silent": "a" * 60_000})
    rebuilt = rebuild(data(made), RELEASE)
    told = "This answer has {} characters. At most 50,000 are graded."
    of_code, of_text = told.format(f"{len(ANSWER) + MAX_SOURCE:,}"), told.format("60,000")
    cut = {
        "address": f'raise ValueError("{of_code}")',
        "why_silent": f"{'a' * 50_000}\n\n[{of_text}]",
    }
    assert rebuilt.answers == RIGHT | cut
    assert rebuilt.notes == (
        f"cell address has {len(ANSWER) + MAX_SOURCE:,} characters, more than are graded",
        "cell why_silent has 60,000 characters, more than are graded",
    )


def test_one_line_that_looks_like_a_conflict_is_an_answer():
    """Of a conflict there are two; one may stand in a comment or a text of the student's."""
    told = f"{ANSWER}x = '''\n<<<<<<< as git writes\n'''\n"
    assert answered(filled({"address": told})) == told


def test_answers_that_were_found_by_what_they_define_are_counted():
    made = filled(RIGHT)
    for name in ("address", "overlaps"):
        cell = cell_of(made, name)
        cell["id"], cell["metadata"] = "x", {}
    rebuilt = rebuild(data(made), RELEASE)
    assert rebuilt.notes == ("2 answers had lost their ids and were found by what they define",)


def test_a_merge_that_exchanged_three_answers_is_told_by_its_first():
    made = filled(RIGHT)
    names = [name for name in RELEASE.functions if name in RIGHT][:3]
    places = {cell["id"]: place for place, cell in enumerate(made["cells"], 1)}
    for name, other in zip(names, names[1:] + names[:1], strict=True):
        cell_of(made, name)["source"] = RIGHT[other]
    with pytest.raises(Ungradable) as raised:
        rebuild(data(made), RELEASE)
    assert f"the answer {names[0]!r} holds the answer {names[1]!r}" in str(raised.value)
    assert raised.value.note == (
        "the ids of 3 answers contradict what they define: a merge may have mixed them up, "
        f"first in cell {places[names[0]]}"
    )


def test_an_answer_in_the_place_of_one_that_is_gone_is_the_judges_to_tell():
    """Nothing contradicts it: there is no cell of the other one."""
    made = filled({"address": RIGHT["overlaps"]})
    made["cells"].remove(cell_of(made, "overlaps"))
    assert answered(made) == RIGHT["overlaps"]


def test_names_of_an_answers_cell_are_not_left_out():
    rebuilt = rebuild(data(filled({"address": f"{ANSWER}kept = 1\n"})), RELEASE)
    assert not {"address", "kept"} & rebuilt.left_out


def test_what_is_no_line_of_a_source_is_passed_over():
    made = filled({})
    cell_of(made, "address")["source"] = ["def address():\n", 3, None, "    return 1"]
    assert answered(made) == "def address():\n    return 1"


def test_an_answer_that_holds_another_beside_its_own_is_no_exchange():
    """Somebody answers two questions in one cell, and leaves the other without its function."""
    both = ANSWER + RIGHT["overlaps"]
    assert answered(filled({"address": both, "overlaps": "x = 1"})) == both


def test_a_cell_that_holds_two_others_contradicts_once():
    names = [name for name in RELEASE.functions if name in RIGHT][:3]
    others = "\n".join(RIGHT[name] for name in names[1:])
    made = filled({names[0]: others, names[1]: "x = 1", names[2]: "x = 2"})
    with pytest.raises(Ungradable) as raised:
        rebuild(data(made), RELEASE)
    assert raised.value.note.startswith("the ids of 1 answers contradict")


def test_a_free_text_without_ids_that_nobody_wrote_is_as_it_was_given_out():
    given = cell_of(released(), "why_silent")["source"]
    rebuilt = rebuild(data(without_ids(filled(RIGHT))), RELEASE)
    assert rebuilt.answers["why_silent"] == given


def test_of_two_cells_with_one_id_both_say_what_they_define():
    """The second holds its own function: these are rivals, and nothing was exchanged."""
    made = filled({"address": RIGHT["overlaps"], "overlaps": "x = 1"})
    made["cells"].append({**cell_of(made, "address"), "source": ANSWER})
    with pytest.raises(Ungradable, match="2 different cells claim to be the answer 'address'"):
        rebuild(data(made), RELEASE)


def test_what_any_cell_of_the_set_up_defines_is_not_left_out():
    release = releases(ROOT)["11_distributed"]
    assert ["def net_loss" in cell["source"] for cell in release.setup] == [False, True]
    made = json.loads(release.notebook)
    made["cells"].append(added("mine", "def net_loss(): pass\nmine = 1"))
    left_out = rebuild(data(made), release).left_out
    assert "mine" in left_out
    assert "net_loss" not in left_out


class TestNothingElseSurvives:
    def rebuilt(self, made):
        return notebook(RELEASE, rebuild(data(made), RELEASE))

    def test_a_hostile_notebook_becomes_the_release_with_its_answers(self):
        made = filled({"address": ANSWER})
        for cell in made["cells"]:
            cell["metadata"].setdefault("nbgrader", {}).update(
                points=1e9, locked=False, grade=True, solution=False, task=True, checksum="0"
            )
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1000"}]
            cell["attachments"] = {"x.png": {"image/png": "AAAA"}}
            if cell["id"].endswith("_check"):
                cell["source"] = "print('passed')"
        made["metadata"] = {"kernelspec": {"name": "evil", "display_name": "evil"}}
        made["nbformat"], made["nbformat_minor"] = 99, "x"
        made["cells"] = [added("mine", "import os"), *made["cells"], deepcopy(made["cells"][3])]
        want = json.loads(RELEASE.notebook)
        want["cells"] = deepcopy(RELEASE.cells)
        cell_of(want, "address")["source"] = ANSWER
        got = self.rebuilt(made)
        assert got == want
        nbformat.validate(got)

    def test_the_widgets_that_jupyterlab_saves_with_a_notebook_change_nothing(self):
        made, plain = filled({"address": ANSWER}), filled({"address": ANSWER})
        view = {"model_name": "AnyModel", "state": {"_esm": "def overlaps(x):\n    return True"}}
        state = {"version_major": 2, "version_minor": 0, "state": {"a1": view}}
        made["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
        assert rebuild(data(made), RELEASE) == rebuild(data(plain), RELEASE)
        assert self.rebuilt(made) == self.rebuilt(plain)

    def test_only_set_up_and_answers_run(self):
        names = [name for name, _ in to_run(RELEASE, rebuild(data(filled(RIGHT)), RELEASE))]
        assert names == ["setup", *RELEASE.lab.questions]

    def test_a_students_set_up_is_the_releases(self):
        made = filled(RIGHT)
        cell_of(made, "setup")["source"] = "import evil"
        cells = dict(to_run(RELEASE, rebuild(data(made), RELEASE)))
        assert cells["setup"] == cell_of(released(), "setup")["source"]

    def test_an_untouched_free_text_stays_untouched_so_that_nbgrader_knows_it(self):
        assert cell_of(self.rebuilt(released()), "why_silent") == cell_of(
            {"cells": RELEASE.cells}, "why_silent"
        )


class TestUngradable:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "damaged"),
            (b"{", "damaged"),
            (b"\x00\xff\xfe", "UTF-8"),
            (b"\xff\xfe{\x00}\x00", "UTF-8"),
            (b"[]", "list of cells"),
            (b"null", "list of cells"),
            (b"1e999", "list of cells"),
            (b'{"cells": {}}', "list of cells"),
            (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "list of cells"),
            (b"[" * 100_000, "damaged"),
            (b'{"cells":' * 100_000, "damaged"),
            (b"1" * 100_000, "damaged"),
            (b'{"cells": [' + b"{}," * MAX_CELLS + b"{}]}", "more than 5,000 cells"),
        ],
    )
    def test_is_said_in_a_sentence(self, content, reason):
        with pytest.raises(Ungradable, match=reason) as raised:
            rebuild(content, RELEASE)
        assert str(raised.value).endswith(".")

    def test_when_two_cells_disagree_about_an_answer(self):
        made = filled({"address": ANSWER})
        made["cells"].append({**cell_of(made, "address"), "id": "b", "source": ANSWER + "#"})
        with pytest.raises(Ungradable, match="2 different cells claim to be the answer 'address'"):
            rebuild(data(made), RELEASE)

    def test_when_two_cells_without_ids_define_the_function(self):
        made = filled({"address": ANSWER})
        for cell in made["cells"]:
            del cell["id"], cell["metadata"]
        made["cells"].append({"cell_type": "code", "source": ANSWER + "#"})
        with pytest.raises(Ungradable, match="different cells"):
            rebuild(data(made), RELEASE)

    @pytest.mark.parametrize("keep_ids", [True, False])
    def test_says_to_the_instructor_where_the_rivals_stand(self, keep_ids):
        made = filled({"address": ANSWER}) if keep_ids else without_ids(filled({"address": ANSWER}))
        place = [cell["source"] for cell in made["cells"]].index(ANSWER)
        made["cells"].append({**made["cells"][place], "source": ANSWER + "#"})
        with pytest.raises(Ungradable) as raised:
            rebuild(data(made), RELEASE)
        assert raised.value.note == f"address stands in cell {place + 1}, {len(made['cells'])}"

    def test_when_a_merge_exchanged_the_ids_of_two_answers(self):
        made = filled(RIGHT)
        one, other = cell_of(made, "address"), cell_of(made, "overlaps")
        one["source"], other["source"] = other["source"], one["source"]
        with pytest.raises(Ungradable, match="the answer 'address' holds the answer 'overlaps'"):
            rebuild(data(made), RELEASE)

    def test_but_not_when_an_answer_was_typed_into_another_cell(self):
        """Its own cell still holds the stub: the judge says what is missing."""
        made = filled({"overlaps": ANSWER})
        assert answered(made) == cell_of(released(), "address")["source"]

    def test_when_a_merge_was_not_finished(self):
        text = json.dumps(filled(RIGHT), indent=1)
        middle = text.index("\n", len(text) // 2)
        marks = "\n<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> mine\n"
        with pytest.raises(Ungradable, match="unfinished merge"):
            rebuild((text[:middle] + marks + text[middle:]).encode(), RELEASE)
        inside = f"<<<<<<< local\n{ANSWER}=======\n{ANSWER}#\n>>>>>>> remote\n"
        with pytest.raises(Ungradable, match="unfinished merge") as raised:
            rebuild(data(filled({"address": inside})), RELEASE)
        assert "address" in raised.value.note

    def test_when_it_is_another_labs(self):
        other = releases(ROOT)["02_dispatcher"].notebook
        with pytest.raises(Ungradable, match="another lab's"):
            rebuild(other, RELEASE)


IDS = st.sampled_from(["address", "setup", "address_check", "why_silent", "x", 1, None, [], {}])
SOURCES = st.one_of(
    st.sampled_from([ANSWER, "", "import os", "\ud800", "\0", "def address("]),
    st.text(),
    st.lists(st.one_of(st.text(), st.integers()), max_size=3),
    st.integers(),
    st.none(),
)
METADATA = st.one_of(
    st.none(),
    st.just([]),
    st.fixed_dictionaries({"nbgrader": st.one_of(IDS, st.fixed_dictionaries({"grade_id": IDS}))}),
)
CELLS = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.fixed_dictionaries(
        {}, optional={"id": IDS, "source": SOURCES, "metadata": METADATA, "cell_type": IDS}
    ),
)


@given(st.lists(CELLS, max_size=6))
@settings(max_examples=200)
@pytest.mark.slow
def test_any_list_of_cells_gives_a_good_notebook_or_a_reason(cells):
    try:
        rebuilt = rebuild(json.dumps({"cells": cells}).encode(), RELEASE)
    except Ungradable:
        return
    made = notebook(RELEASE, rebuilt)
    nbformat.validate(made)
    json.dumps(made, ensure_ascii=False).encode()
    answers = set(RELEASE.answers)
    for cell, original in zip(made["cells"], RELEASE.cells, strict=True):
        assert cell == original or (
            cell["id"] in answers and {**cell, "source": ""} == {**original, "source": ""}
        )


class TestFreeText:
    """nbgrader shows markdown answers unsanitised: ours must be letters and nothing else."""

    @pytest.mark.parametrize(
        "hostile",
        [
            "<script>alert(1)</script>",
            "</pre><script>alert(1)</script>",
            "\n\n</pre>\n\n<img src=x onerror=alert(1)>",
            "[x](javascript:alert(1)) <javascript:alert(1)>",
            "![x](https://example.org/track.png)",
            "[x]: javascript:alert(1)\n[x]",
            "$$\\href{javascript:alert(1)}{x}$$",
            "$a$ </pre> $b$",
            "&lt;script&gt;",
            "```\n<script>\n```",
            "\\begin{align}</pre><script>\\end{align}",
            "\0<script\0>",
            "<pre>\n<svg onload=alert(1)>",
            "`</pre><script>`",
        ],
    )
    def test_does_nothing_in_a_browser(self, hostile):
        from nbconvert.filters import markdown2html

        page = markdown2html(as_plain_text(hostile))
        assert page.lower().count("<") == page.count("<pre style=") + page.count("</pre>") == 2
        assert "href=" not in page
        assert "src=" not in page.replace(" src=x onerror", "")

    def test_is_what_the_rebuilt_notebook_holds(self):
        hostile = "<img src=\"x\" onerror='y'>"
        made = notebook(RELEASE, rebuild(data(filled({"why_silent": hostile})), RELEASE))
        source = cell_of(made, "why_silent")["source"]
        assert source == as_plain_text(hostile)
        assert "&lt;img src=&quot;x&quot; onerror=&#x27;y&#x27;&gt;" in source

    def test_reads_as_it_was_written(self):
        assert "a &lt; b\n\n  * c" in as_plain_text("a < b\n\n  * c\n")


def test_a_desert_of_blanks_shrinks():
    """Highlighting one takes time that grows with its square, for the whole class."""
    desert = "def address():\n" + "\n " * 20_000 + "    return 1" + " " * 5_000
    kept = rebuild(data(filled({"address": desert})), RELEASE).answers["address"]
    assert len(kept) < 200
    assert kept.startswith("def address():")
    assert "return 1" in kept
