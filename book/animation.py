"""The moving picture of the README: the first page of the site, as a sentence grows in it; then a
check's card, as a wrong answer gets it.

    make book && python -m book.animation

Writes docs/living.gif from build/book/html, with the browser that the tests use.
"""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from autograder.attacks.sample_class import LAB, QUESTIONS, wrong_source
from autograder.notebook.checking import Checked, checked
from book.unit import ROOT

SITE = ROOT / "build" / "book" / "html" / "index.html"
PICTURE = ROOT / "docs" / "living.gif"
GIVEN, ADDED = "<en> she has eaten <es>", ("ella", "ha", "comido")
PAUSE, CARD_PAUSE = 1_300, 5_000  # milliseconds for each picture
WIDE, TALL = 760, 560
MISTAKE, SEED = "column_major", 8841
CELL = """<body style="margin: 2rem; font: 14px system-ui, sans-serif; line-height: 1.5">
<pre style="padding: .7rem 1rem; border: 1px solid #ddd; background: #f6f6f6">{code}</pre>{card}"""


@contextmanager
def opened(wide: int, tall: int) -> Iterator[Page]:
    """An empty page of that size."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": wide, "height": tall}, color_scheme="light")
        browser.close()


def frames(page: Page) -> list[Image.Image]:
    """A picture for each word of the sentence, and one further down."""
    page.goto(SITE.as_uri(), wait_until="load")
    page.add_style_tag(content=".bd-header-article { display: none !important }")
    box = page.get_by_label("The sentence so far")
    taken = []
    for count in range(len(ADDED) + 1):
        box.fill(" ".join([GIVEN, *ADDED[:count]]))
        page.locator("#living").evaluate("it => it.scrollIntoView()")
        taken.append(picture(page))
    box.fill(" ".join([GIVEN, ADDED[0]]))  # its scores have more to show than those of the last
    for floor in ("python", "kernel", "compiler"):
        page.locator(f'[data-floor="{floor}"]').evaluate("it => it.scrollIntoView()")
        taken.append(picture(page))
    return taken


def card() -> str:
    """A cell with a wrong answer to the first question of lab 01, and what its check shows."""
    question = QUESTIONS[0]
    known = next(one for one in LAB.questions[question].wrong_answers if one.name == MISTAKE)
    code = wrong_source(question, known)
    names: dict[str, Any] = {"math": math}
    exec(code, names)
    shown = checked(question, names, seed=SEED)
    assert isinstance(shown, Checked), shown.text
    assert shown.verdict.misconception == MISTAKE, shown.text
    return CELL.format(code=escape(f'{code}\n\n\ncheck("{question}")'), card=shown.html)


def picture(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE)


def main() -> None:
    """Write the picture."""
    with opened(WIDE, TALL) as page:
        first, *others = frames(page)
        page.set_content(card())
        others.append(picture(page))
    pauses = [PAUSE] * len(others) + [CARD_PAUSE]
    first.save(PICTURE, save_all=True, append_images=others, duration=pauses, loop=0, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes, {1 + len(others)} pictures")


if __name__ == "__main__":
    main()
