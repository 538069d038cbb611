"""Configuration of the documentation site, which `make docs` builds."""

import gc
import os
import sys
from pathlib import Path

gc.set_threshold(100_000)  # Sphinx keeps all pages: looking for garbage takes a fifth of the time
os.environ["RANKWISE_DATA"] = ""  # examples run on data that everybody has
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from rankwise import __version__  # noqa: E402

project = "rankwise"
author = "The rankwise developers"
copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "site_parts.copied_pages",  # docs/site_parts/
    "site_parts.docstrings",
    "site_parts.name_links",
    "site_parts.computed_pages",
    "site_parts.live_figures",
    "site_parts.site_index",
]
exclude_patterns = ["_build", "_templates", "api/generated/*.md"]
highlight_language = "none"
default_role = "literal"  # names become links: site_parts/name_links.py

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
templates_path = ["_templates"]

autosummary_generate = [str(path) for path in Path(__file__).parent.glob("api/*.rst")]
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"GL06", "GL07", "PR02"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py$",
    "backreferences_dir": "api/examples",
    "doc_module": ("rankwise",),
    "image_scrapers": ("matplotlib", "site_parts.live_figures.figures_of_block"),
    "ignore_repr_types": r"matplotlib|rankwise\.plots",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "parallel": 2,
    "min_reported_time": 5,
    "remove_config_comments": True,
}

live_guides = [  # figures of their code are shown below it
    f"guide/{name}"
    for name in (
        *("best-ranker", "comparisons", "hold-outs", "inspecting", "leaderboards", "pictures"),
        *("scaling", "scikit-learn", "small-samples", "trees", "two-sided", "unlabelled"),
        "words-against-words",
    )
]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "rankwise"
html_baseurl = os.environ.get("RANKWISE_SITE", "")  # for sitemap.xml: site_parts/site_index.py
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["live_ranking.js"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "choosing", "commands")}
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "show_prev_next": False,
    "collapse_navigation": True,
    "navigation_depth": 2,
    "navbar_align": "left",
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
