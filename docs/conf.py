"""Settings of Sphinx. A warning is an error: tox -e docs, .ci/run."""

project = "loopcore"
copyright = "the contributors of loopcore"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_typehints = "none"  # they are in the sources; here the words count
autodoc_inherit_docstrings = False  # what asyncio documents is not repeated
exclude_patterns = ["_build", "changes/*"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {"description": "An asyncio event loop that can be taken apart", "fixed_sidebar": True}
