"""What the search shows of a page that it may not fetch."""

from pathlib import Path

import pytest

from book import excerpts

PAGE = """<html><body><p>menu</p><article><section id="one"><h1>One<a class="headerlink"
href="#one">#</a></h1><p>A stride &lt;is&gt; a <code>step</code>.</p>
<div class="cell"><div class="cell_output"><div><p>printed</p></div></div></div>
<section id="two"><h2>Two</h2><ul><li>a list</li></ul><pre>code()</pre></section></section>
</article><p>foot</p></body></html>"""


def test_the_prose_stands_in_its_sections() -> None:
    assert excerpts.prose(PAGE) == (
        '<main role="main"><section id="one">One A stride &lt;is&gt; a step. '
        '<section id="two">Two a list </section></section></main>'
    )


@pytest.mark.parametrize("html", ["", "<article>", "</section></p></div>", "<p>no article</p>"])
def test_a_page_without_an_article_says_nothing(html: str) -> None:
    assert excerpts.prose(html) == '<main role="main"></main>'


def test_every_page_has_its_text_and_what_is_no_page_has_none(tmp_path: Path) -> None:
    for name in ("a.html", "sub/b.html", "_static/c.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PAGE)
    excerpts.write(tmp_path)
    script = (tmp_path / "_static" / excerpts.NAME).read_text()
    assert '"a.html"' in script
    assert '"sub/b.html"' in script
    assert "c.html" not in script
    assert "EXCERPTS[page]" in script
