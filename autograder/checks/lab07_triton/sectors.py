"""What one access of a warp touches: sectors of global memory, banks of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab

LANES, SECTOR_BYTES, BANKS, BANK_BYTES = 32, 32, 32, 4
Touched = tuple[int, int]
Access = tuple[int, tuple[int, int], int, int]


@lab.question(
    "sectors",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "At which byte does the access of lane k begin?",
        "Lane k has the row k // columns and the column k % columns. Sectors: how many different "
        "byte // 32 are there? Banks: two lanes of one bank wait for each other only if they want "
        "different words.",
        "words = {byte // 4 for each lane}; ways = the most words that share one word % 32",
    ),
)
def sectors(student: Student, draw: Draw) -> None:
    """(32-byte sectors of global memory, ways of the bank conflict in shared memory) of a warp that
    accesses a tile of 32 elements.

    first: the byte of the tile's first element, a multiple of itemsize; stride: (row, column), in
    elements; columns: of the tile, lane after lane along a row; itemsize: 1, 2, 4 or 8 -> (sectors,
    ways). Shared memory has 32 banks of 4 bytes; lanes that want the same word share it.
    """
    for case in _cases(draw):
        got = expect_tuple(student.call("sectors", *case), 2, "(sectors, ways)")
        for name, mine, want in zip(("sectors", "ways"), got, _touched(*case), strict=True):
            with within(f"the {name},"):
                expect_equal(mine, want, why=_apart(name, mine, want))


_APART = {
    ("sectors", False): "More sectors than this are touched. Every byte of an element lies in "
    "sector byte // 32: count how many different ones there are.",
    ("sectors", True): "Fewer sectors than this are touched. What lies in the same 32 bytes counts "
    "once, whichever lanes touch it.",
    ("ways", False): "One bank is asked for more words than this. The ways are the different words "
    "that the busiest bank is asked for.",
    ("ways", True): "No bank is asked for so many different words. A word that several lanes want "
    "counts once, and each bank for itself.",
}
"""What is true of a number that is too small, or too large."""


def _apart(name: str, mine: Any, want: int) -> str:
    return _APART[name, mine > want] if type(mine) is int and mine != want else ""


def _cases(draw: Draw) -> Iterator[Access]:
    yield 4, (72, 1), 16, 2  # two rows of float16: no two misreadings agree about them
    yield 0, (64, 1), 32, 4  # a row of float32
    yield 0, (32, 1), 32, 8  # and of float64: two words each
    yield 0, (0, 2), 16, 8  # every other one, and the row again
    yield 16, (600, 1), 32, 4  # from the middle of a sector on
    yield 0, (600, 64), 32, 4  # down a column: each lane in a sector of its own
    yield 0, (96, 5), 32, 2  # neighbours in one word, or not
    yield 8, (600, 1), 8, 2  # four rows of eight
    yield 0, (33, 1), 1, 4  # a padded tile: no conflict
    yield 0, (32, 1), 4, 1
    yield 4, (0, 0), 32, 4  # all of them the same
    yield 0, (0, 1), 16, 2
    yield 12, (24, 1), 16, 4
    yield 2, (33, 1), 1, 2  # from the middle of a word on
    yield 3, (40, 1), 8, 1  # bytes, from the middle of a word on
    yield 0, (3, 1), 8, 1  # rows that overlap
    yield 64, (1, 33), 4, 4  # the tile transposed
    yield 4096, (1024, 16), 2, 2
    yield 6, (0, 1), 4, 2
    for _ in draw.cases(4):
        itemsize, columns = draw.choice((1, 2, 4)), 2 ** draw.integer(0, 5)
        strides = draw.integer(0, 130), draw.choice((0, 1, 1, 2, 3, 8, 64))
        yield itemsize * draw.integer(0, 40), strides, columns, itemsize


def _touched(first: int, stride: tuple[int, int], columns: int, itemsize: int) -> Touched:
    """By marking each byte in a memory of zeros, and looking at its sectors and banks."""
    last = first + itemsize * (LANES * sum(stride) + 1)
    row_bytes = BANKS * BANK_BYTES
    memory = torch.zeros(row_bytes * (last // row_bytes + 1), dtype=torch.bool)
    for lane in range(LANES):
        element = lane // columns * stride[0] + lane % columns * stride[1]
        memory[first + itemsize * element :][:itemsize] = True
    words = memory.view(-1, BANKS, BANK_BYTES).any(2)
    return int(memory.view(-1, SECTOR_BYTES).any(1).sum()), int(words.sum(0).max())


def _bytes(first: int, stride: tuple[int, int], columns: int, itemsize: int) -> list[int]:
    return [
        first + itemsize * (lane // columns * stride[0] + lane % columns * stride[1])
        for lane in range(LANES)
    ]


def _sectors(places: list[int]) -> int:
    return len({place // SECTOR_BYTES for place in places})


def _ways(places: list[int]) -> int:
    words = {place // BANK_BYTES for place in places}
    return max(sum(word % BANKS == bank for word in words) for bank in range(BANKS))


def _answer(
    sector_of: Callable[[list[int]], int] = _sectors,
    ways_of: Callable[[list[int]], int] = _ways,
    places_of: Callable[..., list[int]] = _bytes,
) -> Callable[..., Touched]:
    def answer(first: int, stride: tuple[int, int], columns: int, itemsize: int) -> Touched:
        places = places_of(first, stride, columns, itemsize)
        return sector_of(places), ways_of(places)

    return answer


def _same_word_conflicts(places: list[int]) -> int:
    banks = [place // BANK_BYTES % BANKS for place in places]
    return max(map(banks.count, banks))


def _addresses(places: list[int], itemsize: int) -> int:
    """Of one bank, at most; an element of 8 bytes is in two."""
    parts = range(0, max(itemsize, BANK_BYTES), BANK_BYTES)
    banks = [(p + part) // BANK_BYTES % BANKS for p in set(places) for part in parts]
    return max(map(banks.count, banks))


def _words_of_banks(places: list[int]) -> list[int]:
    """How many words each bank is asked for."""
    words = {place // BANK_BYTES for place in places}
    return [sum(word % BANKS == bank for word in words) for bank in range(BANKS)]


def _whole(places: list[int], itemsize: int) -> list[int]:
    """All bytes of the elements that begin at these places."""
    return [byte for place in places for byte in range(place, place + itemsize)]


def _by_halves(first: int, stride: tuple[int, int], columns: int, itemsize: int) -> Touched:
    places = _bytes(first, stride, columns, itemsize)
    parts = [places] if itemsize < 8 else [places[:16], places[16:]]
    return _sectors(places), max(_ways(_whole(part, itemsize)) for part in parts)


def _banks_of_8(first: int, stride: tuple[int, int], columns: int, itemsize: int) -> Touched:
    places = _bytes(first, stride, columns, itemsize)
    return _sectors(places), _ways([place * BANK_BYTES // max(4, itemsize) for place in places])


def _span(places: list[int]) -> int:
    return max(places) // SECTOR_BYTES - min(places) // SECTOR_BYTES + 1


ELEMENTS = "Elements are taken for bytes: lane k is stride * itemsize bytes further, not stride."
_WRONG = {
    "aligned": (
        "The tile is taken to begin at a sector's first byte. A row that begins in the middle of "
        "a sector may touch one more.",
        _answer(places_of=lambda first, *rest: _bytes(0, *rest)),
    ),
    "elements_for_bytes": (
        ELEMENTS,
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(first, stride, columns, 1)
        ),
    ),
    "strides_for_bytes": (
        ELEMENTS,
        _answer(
            places_of=lambda first, stride, columns, itemsize: _whole(
                _bytes(first, stride, columns, 1), itemsize
            )
        ),
    ),
    "sectors_of_each_row": (
        "The sectors of each row are counted for themselves, and added. Two rows that lie in the "
        "same 32 bytes share a sector.",
        lambda first, stride, columns, itemsize: (
            len({(k // columns, place // SECTOR_BYTES) for k, place in
                 enumerate(_bytes(first, stride, columns, itemsize))}),
            _ways(_bytes(first, stride, columns, itemsize)),
        ),
    ),
    "halves_of_a_warp": (
        "The warp is taken in two halves where elements have 8 bytes. Asked for are the words that "
        "its 32 lanes want of one bank.",
        _by_halves,
    ),
    "banks_of_8": (
        "A bank is taken to be 8 bytes wide for elements of 8 bytes. It has 4: such an element is "
        "two words, in two banks.",
        _banks_of_8,
    ),
    "whole_span": (
        "This counts all sectors between the first and the last. Those in a gap are not touched.",
        _answer(sector_of=_span),
    ),
    "lines": (
        "These are lines of 128 bytes. Memory moves in sectors of 32, four to a line.",
        _answer(sector_of=lambda places: len({p // 128 for p in places})),
    ),
    "broadcast_conflicts": (
        "Lanes that want the same word are counted as a conflict. One read serves all of them: "
        "only different words of one bank wait.",
        _answer(ways_of=_same_word_conflicts),
    ),
    "strides_exchanged": (
        "Rows and columns are exchanged, of the tile or of its strides: a row has `columns` "
        "elements, and the first stride leads down to the next row, the second along a row.",
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(
                first, (stride[1], stride[0]), columns, itemsize
            )
        ),
    ),
    "banks_of_elements": (
        "Each element is given a bank of its own. A bank is 4 bytes wide: two float16 in one word "
        "are one access, and a float64 is two words.",
        lambda first, stride, columns, itemsize: (
            _answer()(first, stride, columns, itemsize)[0],
            _ways([place // itemsize * BANK_BYTES for place in
                   _bytes(first, stride, columns, itemsize)]),
        ),
    ),
    "words_from_the_tile_on": (
        "The words are counted from the tile's first byte on. A word begins at a multiple of 4 "
        "bytes of the memory.",
        lambda first, *rest: (
            _sectors(_bytes(first, *rest)),
            _ways([place - first for place in _bytes(first, *rest)]),
        ),
    ),
    "sectors_from_the_tile_on": (
        "The sectors are counted from the tile's first byte on. A sector begins at a multiple of "
        "32 bytes of the memory.",
        lambda first, *rest: (_sectors(_bytes(0, *rest)), _ways(_bytes(first, *rest))),
    ),
    "no_stride_along_a_row": (
        "Neighbours in a row are taken to lie side by side. stride[1] says how far apart they are.",
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(
                first, (stride[0], 1), columns, itemsize
            )
        ),
    ),
    "one_row": (
        "All 32 lanes are taken to be in one row. Behind `columns` of them the next row begins.",
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(first, stride, 32, itemsize)
        ),
    ),
    "bytes_for_banks": (
        "Each byte is given a bank of its own. A bank is 4 bytes wide.",
        _answer(ways_of=lambda places: _ways([place * BANK_BYTES for place in places])),
    ),
    "banks_of_sectors": (
        "Banks are counted in sectors. A bank is 4 bytes wide, whatever a sector is.",
        _answer(ways_of=lambda places: max(
            [p // 32 % BANKS for p in places].count(bank) for bank in range(BANKS))),
    ),
    "banks_that_work": (
        "This counts the banks that are used. The ways are the words that the busiest of them is "
        "asked for.",
        _answer(ways_of=lambda places: len({p // BANK_BYTES % BANKS for p in places})),
    ),
    "bytes_by_32": (
        "This divides a number of bytes by 32. Whoever begins in the middle of a sector may touch "
        "one more, and bytes in a gap are not touched.",
        lambda first, stride, columns, itemsize: (
            -(-(max(_bytes(0, stride, columns, itemsize)) + itemsize) // SECTOR_BYTES),
            _ways(_bytes(first, stride, columns, itemsize)),
        ),
    ),
    "touched_bytes_by_32": (
        "This divides the bytes that are touched by 32. Where they do not lie together they fill "
        "no sector: count the sectors that they lie in.",
        lambda first, stride, columns, itemsize: (
            -(-len(set(_whole(_bytes(first, stride, columns, itemsize), itemsize)))
              // SECTOR_BYTES),
            _ways(_whole(_bytes(first, stride, columns, itemsize), itemsize)),
        ),
    ),
    "each_place_a_sector": (
        "Each lane's place is counted as a sector of its own. Places in the same 32 bytes share "
        "one.",
        _answer(sector_of=lambda places: len(set(places))),
    ),
    "ways_first": (
        "The ways stand first. Asked for are the sectors, then the ways.",
        lambda *access: _answer()(*access)[::-1],
    ),
    "addresses_for_words": (
        "Different addresses are counted. Two elements in one word of 4 bytes are one word, and "
        "one access.",
        lambda first, stride, columns, itemsize: (
            _sectors(places := _bytes(first, stride, columns, itemsize)),
            _addresses(places, itemsize),
        ),
    ),
    "words_by_32": (
        "This divides all words by 32 banks, as if each bank were asked for equally many. The ways "
        "are those of the busiest.",
        lambda first, stride, columns, itemsize: (
            _sectors(places := _whole(_bytes(first, stride, columns, itemsize), itemsize)),
            -(-len({place // BANK_BYTES for place in places}) // BANKS),
        ),
    ),
    "lanes_with_a_conflict": (
        "This adds up the words that wait in all banks. The ways are those of the worst bank: the "
        "banks work at the same time.",
        _answer(
            ways_of=lambda places: (
                len({p // BANK_BYTES for p in places})
                - len({p // BANK_BYTES % BANKS for p in places})
                + 1
            )
        ),
    ),
}  # fmt: skip
AVERAGE = (
    "This is the average or the least of the banks that work. The busiest of them decides how long "
    "all wait."
)
_MORE: dict[str, tuple[str, Callable[..., Any]]] = {
    "down_alone": (
        "Every lane is taken to be a row further than the one before. `columns` lanes stand "
        "side by side first.",
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(first, stride, 1, itemsize)
        ),
    ),
    "a_sector_for_each_lane": (
        "This counts a sector for each lane. Lanes that lie in the same 32 bytes share one.",
        _answer(sector_of=len),
    ),
    "bytes_of_the_sectors": (
        "These are the bytes that move. Asked for is how many sectors, of 32 bytes each.",
        _answer(sector_of=lambda places: 32 * _sectors(places)),
    ),
    "as_few_as_can_be": (
        "This is what 32 elements fill if they lie together and begin with a sector. Ask "
        "where each of them lies.",
        lambda first, stride, columns, itemsize: (
            itemsize,
            _ways(_bytes(first, stride, columns, itemsize)),
        ),
    ),
    "words_counted": (
        "This counts all words. The ways are those of the one bank that is asked for the most.",
        _answer(ways_of=lambda places: len({p // BANK_BYTES for p in places})),
    ),
    "average_of_the_banks": (
        AVERAGE,
        _answer(
            ways_of=lambda places: (
                len({p // BANK_BYTES for p in places})
                // len({p // BANK_BYTES % BANKS for p in places})
            )
        ),
    ),
    "lanes_by_banks": (
        "This divides 32 lanes by the banks that work. Lanes may share a word, and banks are "
        "not asked for equally many.",
        _answer(ways_of=lambda places: LANES // len({p // BANK_BYTES % BANKS for p in places})),
    ),
    "others_that_wait": (
        "This counts the words that wait behind the first. Without a conflict there is one "
        "way, and not none.",
        _answer(ways_of=lambda places: _ways(places) - 1),
    ),
    "quietest_bank": (
        AVERAGE,
        _answer(ways_of=lambda places: min(n for n in _words_of_banks(places) if n)),
    ),
    "number_of_the_bank": (
        "This is the number of the busiest bank. Asked for is how many words it is asked for.",
        _answer(ways_of=lambda places: max(range(BANKS), key=_words_of_banks(places).__getitem__)),
    ),
    "first_in_elements": (
        "`first` is a byte, and was multiplied by itemsize too.",
        _answer(
            places_of=lambda first, stride, columns, itemsize: _bytes(
                first * itemsize, stride, columns, itemsize
            )
        ),
    ),
    "half_a_warp": (
        "Only 16 lanes are counted. A warp has 32.",
        _answer(places_of=lambda *access: _bytes(*access)[:16]),
    ),
    "one_row_of_lanes": (
        "Only the first `columns` lanes are counted. A warp has 32, in as many rows as it takes.",
        lambda first, stride, columns, itemsize: _answer(
            places_of=lambda *access: _bytes(*access)[:columns]
        )(first, stride, columns, itemsize),
    ),
    "a_byte_too_far": (
        "The byte behind each element is counted with it. The last byte of an element is its "
        "first one + itemsize - 1.",
        lambda first, stride, columns, itemsize: (
            len(
                {
                    q // SECTOR_BYTES
                    for p in _bytes(first, stride, columns, itemsize)
                    for q in (p, p + itemsize)
                }
            ),
            _ways(_bytes(first, stride, columns, itemsize)),
        ),
    ),
    "sectors_alone": (
        "These are the sectors alone. The ways of the bank conflict are asked for too.",
        lambda *access: _answer()(*access)[0],
    ),
}
for _key, (_sentence, _function) in [*_WRONG.items(), *_MORE.items()]:
    sectors.wrong(_key, _sentence, sectors=_function)


@sectors.cost
def _(student: Student, draw: Draw) -> str:
    along, down = (student.call("sectors", 0, (64, 1), n, 4) for n in (32, 1))
    return (
        f"32 float32 of the head's weight: {along[0]} sectors along a row, {down[0]} down a column"
    )
