"""Sphinx's configuration. `python -m book` calls it; see __main__."""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autograder.authoring.address import BRANCH, REPOSITORY
from book import edition, shared_link
from book.no_break import NumbersWithTheirUnits
from book.no_guess import CodeWithoutGuesses

project = "One Layer Deep"
author = "One Layer Deep"
copyright = "the authors of One Layer Deep. Text: CC BY 4.0, code: BSD 3-Clause"
extensions = ["myst_nb"]
language = os.environ.get("BOOK_LANGUAGE", "en")
IS_ENGLISH = language == "en"
WORDS = edition.words(edition.named(language))
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

nb_execution_mode = os.environ.get("BOOK_EXECUTION", "cache")
nb_execution_cache_path = os.environ.get("BOOK_CACHE", "")
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_code_prompt_show = WORDS.show_code
nb_code_prompt_hide = WORDS.hide_code
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they come from a CDN; our views bring their own
nb_mime_priority_overrides = [("html", "text/html", 0)]  # what works without a kernel comes first
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 3
myst_html_meta = {"description": WORDS.description}

html_theme = "sphinx_book_theme"
html_title = "One Layer Deep"
html_static_path = ["static"]
html_favicon = "static/layer_icon.svg"
html_css_files = ["book.css"]
html_js_files = ["words.js", "book.js"]
html_copy_source = True
html_use_index = False  # of a page that would be empty
html_sourcelink_suffix = ""
html_show_sphinx = False
html_last_updated_fmt = None
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_start": [],  # all of it is in the side bar
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "repository_url": REPOSITORY,
    "repository_branch": BRANCH,
    "path_to_docs": "" if IS_ENGLISH else language,
    "use_edit_page_button": True,
    "use_repository_button": True,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "launch_buttons": {
        "colab_url": "https://colab.research.google.com",
        "binderhub_url": "https://mybinder.org",
        "notebook_interface": "jupyterlab",
    },
}


def lead_to_the_source(
    app: Any, name: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """A page's "edit" leads to the file it is made from: those in book/ have another place."""
    if "/" not in name:
        context["doc_path"] = "book"
        here = Path(app.confdir, f"{name}.md").is_file()
        context["theme_use_edit_page_button"] = here


def bring_what_is_large(
    app: Any, name: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """The first page has the grammar model, the search what pages say; others need neither."""
    if name == "index":
        app.add_css_file("living.css")
        for script in ("living_weights.js", "living_model.js", "living.js"):
            app.add_js_file(script, defer="defer")
    if name == "search":
        app.add_js_file("excerpts.js")


def show_in_a_shared_link(
    app: Any, name: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """A page's title, what the course is, and its picture, for whoever is sent the link."""
    title = context.get("title") or project  # the search has none, and no tags of its own
    told = shared_link.tags(title, WORDS.description, language, WORDS.shared_picture)
    context["metatags"] = context.get("metatags", "") + told


def setup(app: Any) -> None:
    app.add_post_transform(NumbersWithTheirUnits)
    app.add_post_transform(CodeWithoutGuesses)
    app.connect("html-page-context", lead_to_the_source, priority=400)
    app.connect("html-page-context", bring_what_is_large)
    app.connect("html-page-context", show_in_a_shared_link)
