"""Settings of Sphinx. A warning is an error: tox -e docs, .ci/run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # directives.py

project = "loopcore"
copyright = "the contributors of loopcore"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx.ext.autodoc", "directives"]
autodoc_typehints = "none"  # they are in the sources; here the words count
autodoc_inherit_docstrings = False  # what asyncio documents is not repeated
exclude_patterns = ["_build", "changes/*"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "loopcore"
html_static_path = ["_static"]
html_css_files = ["loopcore.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
