"""Two real ranks over gloo: the collective of the rank that comes first lasts longer."""

from onelayer.profiling.waiting_rank import traces_of_two_ranks


def lasted(traces):
    return [sum(e["dur"] for e in t if e["name"] == "gloo:all_reduce") for t in traces]


def test_the_rank_with_less_to_do_stands_in_the_collective():
    early, late = lasted(traces_of_two_ranks("cpu", repaired=False))
    assert early > late > 0
