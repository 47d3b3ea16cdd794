"""The cell below each title that brings the course to a machine which does not have it."""

from autograder.authoring.address import BRANCH, REPOSITORY
from autograder.authoring.header import Header
from autograder.authoring.language import ENGLISH, Language
from autograder.authoring.percent_source import Cell

ID = "bring-the-course"
VIEW = {"jupyter": {"source_hidden": True}}
"""JupyterLab and VS Code show it folded."""
SOURCE = f"onelayer @ git+{REPOSITORY}@{BRANCH}"

# Without dependencies: what the course needs is there, and pip would put other versions of IPython
# and ipywidgets in its place, under which Colab's own widgets no longer run.
_TEXT = """\
# @ARRIVAL@
import importlib.util
import os
import subprocess
import sys

hosts = {
    "Colab": "COLAB_RELEASE_TAG",
    "Kaggle": "KAGGLE_KERNEL_RUN_TYPE",
    "Binder": "BINDER_SERVICE_HOST",
}
host = next((name for name, variable in hosts.items() if variable in os.environ), None)
if importlib.util.find_spec("onelayer") is None:
    if host is None:
        raise ModuleNotFoundError("@NOTHING_INSTALLED@")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "@SOURCE@"], check=True)"""

_LANGUAGE = """
os.environ["ONELAYER_LANGUAGE"] = "@CODE@\""""


def arrival_cell(language: Language = ENGLISH) -> Cell:
    text = _TEXT if language == ENGLISH else _TEXT + _LANGUAGE
    said = {"ARRIVAL": language.arrival, "NOTHING_INSTALLED": language.nothing_installed}
    for name, words in {**said, "SOURCE": SOURCE, "CODE": language.code}.items():
        text = text.replace(f"@{name}@", words)
    return Cell("code", text, 1, Header(ID, view=VIEW))
