"""C++ text cut into code, comments and literals, so that only code is ever rewritten."""

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"""
      (?P<raw>      (?:u8|u|U|L)?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" )
    | (?P<string>   "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | (?P<comment>  //(?:\\\n|[^\n])* | /\*.*?\*/ )
    | (?P<number>   \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])* )
    | (?P<word>     [A-Za-z_]\w* )
    | (?P<open>     <<< ) | (?P<close> >>> )
    | (?P<blank>    \s+ )
    | (?P<other>    . )
    """,
    re.VERBOSE | re.DOTALL,
)


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text); the texts together are the whole input. Kinds: raw, string, comment,
    number, word, open (<<<), close (>>>), blank, other."""
    for match in _PIECE.finditer(text):
        kind = next(k for k, v in match.groupdict().items() if v is not None and k != "mark")
        yield kind, match.group()


def without_comments(text: str) -> str:
    """Return the code alone: comments are blanks, and every line keeps its number."""
    return "".join(
        re.sub(r"[^\n]", " ", piece) if kind == "comment" else piece for kind, piece in pieces(text)
    )
