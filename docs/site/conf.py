"""Settings of the documentation's site, which `make docs` builds from the pages in `docs/`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "kwiken"
author = "The kwiken authors"
copyright = "The kwiken authors"  # noqa: A001 - Sphinx's own name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "faces", "outside", "tables"]
myst_heading_anchors = 4  # links between pages name headings of up to this depth
myst_enable_extensions = ["colon_fence"]
# Transcripts and logs are shown as they are.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "kwiken"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
