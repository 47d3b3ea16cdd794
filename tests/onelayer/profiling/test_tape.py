"""A tape: rows in the order in which they were asked for, and names that stand for values."""

from onelayer.profiling.tape import Tape


def test_each_call_is_a_row_and_gives_the_name_of_what_it_makes():
    tape = Tape()
    x = tape.copy(tape.pin("batch"), non_blocking=True)
    loss = tape.op("aten.mean.default", tape.op("aten.mm.default", x, "w"))
    number = tape.read(loss)
    assert [call for _, call, _, _ in tape.rows] == [
        "pin",
        "copy",
        "aten.mm.default",
        "aten.mean.default",
        "read",
    ]
    assert [names for names, *_ in tape.rows][-1] == [number]
    assert tape.rows[1] == ([x], "copy", ["v0"], {"non_blocking": True})


def test_lists_give_lists_of_names_that_differ():
    tape = Tape()
    moved = tape.op("aten._foreach_mul.Scalar", ("m0", "m1"), 0.9)
    grads = tape.gradients("loss", ["w0", "w1", "w2"])
    assert tape.rows[0] == (moved, "aten._foreach_mul.Scalar", [["m0", "m1"], 0.9], {})
    assert len(set(moved + grads)) == 5


def test_a_list_that_changes_later_does_not_change_a_row():
    tape, weights = Tape(), ["w0", "w1"]
    tape.gradients("loss", weights)
    weights[0] = "other"
    assert tape.rows[0][2] == ["loss", ["w0", "w1"]]
