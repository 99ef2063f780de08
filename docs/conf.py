"""Sphinx: the Markdown pages of docs/ as a site. `make docs` builds it to build/docs.

The pages are those that a repository's host shows. As a page is read, the index gets the tables of
contents, which only a site has, and links to folders become text.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "Meshwright"
author = "The Meshwright authors"
release = "0.1"

extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Meshwright"
html_show_copyright = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # as the host of a repository makes them
nitpicky = True
suppress_warnings = [
    "myst.header",  # pages that begin a section below its level
    "misc.highlighting_failure",  # JSON with an ellipsis
]

GROUPS = {
    "Tutorials": "tutorials",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
}
CONTENTS = "\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{folder}/*\n```\n"


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the tables of contents to the index."""
    del app
    if name == "index":
        source[0] += "".join(
            CONTENTS.format(caption=caption, folder=folder) for caption, folder in GROUPS.items()
        )


def name_folders(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace links to folders of the repository, which a site lacks, by their texts."""
    folder = Path(app.srcdir, name).parent

    def text_of(link: re.Match[str]) -> str:
        return link[1] if (folder / link[2]).is_dir() else link[0]

    source[0] = re.sub(r"\[([^\]]*)\]\(([^)\s#]+)\)", text_of, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("source-read", name_folders)
