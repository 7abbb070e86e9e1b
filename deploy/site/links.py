"""MkDocs hook: files of the repository that pages link to (examples, deploy, ...) become files of the site.

A link that leaves `docs/` must name a file that exists; it is copied below `repository/` of the site.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

log = get_plugin_logger(__name__)
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_TARGET = "repository"


def on_files(files: Files, config: Any) -> Files:
    """Add the linked files outside `docs/`; a directory stands for its README.md."""
    for page in [file for file in files if file.is_documentation_page()]:
        for link, _ in _LINK.findall(Path(page.abs_src_path or "").read_text()):
            source = _outside(page.src_uri, link)
            if source is not None and source.is_file():
                uri = f"{_TARGET}/{source.relative_to(ROOT)}.txt"
                if files.get_file_from_path(uri) is None:
                    files.append(File.generated(config, uri, content=source.read_text(errors="replace")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave `docs/` to the copies."""

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
