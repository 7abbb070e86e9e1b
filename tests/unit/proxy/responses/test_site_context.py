from pathlib import Path

from foundation.web.brand import NO_BRAND
from proxy.responses.site_context import build_site_info
from tests.support.options import make_options


def test_pages_reflect_the_configuration(tmp_path: Path) -> None:
    assert build_site_info(make_options(tmp_path)).contact == ""
    assert build_site_info(make_options(tmp_path, support_contact="help@corp.com")).contact == "mailto:help@corp.com"


def test_a_logo_stands_in_the_page_itself(tmp_path: Path) -> None:
    assert build_site_info(make_options(tmp_path)).brand == NO_BRAND
    (tmp_path / "logo.svg").write_bytes(b'<svg xmlns="http://www.w3.org/2000/svg"/>')
    brand = build_site_info(
        make_options(tmp_path, brand={"name": "Example Corp", "logo": str(tmp_path / "logo.svg"), "accent": "#abc"})
    ).brand
    assert (brand.name, brand.accent) == ("Example Corp", "#aabbcc")
    assert brand.logo == "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
