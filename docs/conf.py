"""Configuration of the documentation site; `make docs` builds it offline."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "antecede"
copyright = "The antecede authors"  # noqa: A001  Sphinx requires this name.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_reference",
]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = "antecede"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "both"
napoleon_google_docstring = True
nitpicky = False
suppress_warnings = ["myst.xref_missing_external"]
