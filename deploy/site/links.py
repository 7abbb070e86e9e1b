"""MkDocs hook: files of the repository that pages link to (examples, deploy, ...) become files of the site.

A link that leaves `docs/` must name a file that exists; it is copied below `repository/` of the site.
Design decisions come last, in the navigation and in search results.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files, file_sort_key
from mkdocs.utils import nest_paths

log = get_plugin_logger(__name__)
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_TARGET = "repository"
_DECISIONS = "decisions/"
_DECISIONS_BOOST = 0.0001  # a match in a title counts a thousand times a match in the text


def on_files(files: Files, config: Any) -> Files:
    """Add the linked files outside `docs/`; a link to a directory means its README.md. Move decisions to the end of the navigation."""
    pages = sorted(files.documentation_pages(), key=lambda file: (file.src_uri.startswith(_DECISIONS), file_sort_key(file)))
    config["nav"] = nest_paths(page.src_uri for page in pages)
    for page in pages:
        for link, _ in _LINK.findall(Path(page.abs_src_path or "").read_text()):
            source = _outside(page.src_uri, link)
            if source is not None and source.is_file():
                uri = f"{_TARGET}/{source.relative_to(ROOT)}.txt"
                if files.get_file_from_path(uri) is None:
                    files.append(File.generated(config, uri, content=source.read_text(errors="replace")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave `docs/` to the copies. Lower the rank of decisions in search results."""
    if page.file.src_uri.startswith(_DECISIONS):
        page.meta["search"] = {"boost": _DECISIONS_BOOST}

    def target(link: re.Match[str]) -> str:
        source = _outside(page.file.src_uri, link[1])
        if source is None:
            return link[0]
        if not source.is_file():
            log.warning("%s: the link %s leads to no file", page.file.src_uri, link[1])
            return link[0]
        depth = "../" * page.file.src_uri.count("/")
        return f"]({depth}{_TARGET}/{source.relative_to(ROOT)}.txt)"

    return _LINK.sub(target, markdown)


def _outside(page: str, link: str) -> Path | None:
    """Return the linked file where it lies outside `docs/`."""
    path = (DOCS / page).parent.joinpath(link).resolve()
    if path.is_relative_to(DOCS):
        return None
    return path / "README.md" if path.is_dir() else path
