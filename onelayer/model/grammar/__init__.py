"""The grammar: 600 words of English and Spanish, every sentence they say, and which are held out.

    from onelayer import grammar
    grammar.TOKENS[60]                            # 'hablo'
    grammar.split().held_out[0]                   # a sentence that the trained model never saw
    grammar.following(["<es>", "yo", "he"])       # the participles

Choices that make a translation determined:

- `you` is one person (`tú`). Several are `you-all` (`vosotros`).
- `they` becomes `ellos`, as for every group in Spanish that is not all female. `ellas` becomes
  `they`, and no translation asks for `ellas`.
- A clause that means two things is never translated, only reached: `we speak` and `we spoke` both
  become `nosotros hablamos`, and `nosotros hablamos` stands in no question.

What lives here: words, rules and sentences, in plain Python. What may not: tensors, models,
randomness without a seed.
"""

from .corpus import Sentence, sentences
from .determinacy import determined, following, readings
from .split import Split, split
from .vocabulary import END, TOKENS, UnknownWordError, V, decode, encode

__all__ = [
    "END",
    "TOKENS",
    "Sentence",
    "Split",
    "UnknownWordError",
    "V",
    "decode",
    "determined",
    "encode",
    "following",
    "readings",
    "sentences",
    "split",
]
