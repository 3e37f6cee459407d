"""Settings of Sphinx. A warning is an error: tox -e docs, .ci/run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # directives.py

project = "loopcore"
copyright = "the contributors of loopcore"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx", "directives"]
autodoc_inherit_docstrings = False  # directives.py adds references to asyncio's documentation
nitpick_ignore_regex = [
    ("py:class", r"([\w.]+\.)?(_?T\d?|Ts|S|P|P\.(kw)?args)"),  # type variables
    ("py:class", r"ReadableBuffer|WriteableBuffer|FileDescriptorLike|_TaskFactory"),  # typeshed's
    ("py:class", r"opentelemetry\..*"),
    ("py:class", r"concurrent\.futures\._base\.Future"),  # where Python says that its class is
]
autodoc_preserve_defaults = True  # `socket.AF_UNSPEC`, and not what its repr() is
python_maximum_signature_line_length = 100
# The names of Python that the pages refer to are in a file here, so a build needs no network. Add a name there if the
# build does not find it: NAME KIND PAGE.
intersphinx_mapping = {"python": ("https://docs.python.org/3", "python-names.txt")}
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
