"""Icons: unguessable names for configured files, 404 for others."""

from pathlib import Path

from authenticate.portal.icons import PATH, Icons
from tests.support.options import make_options
from tests.unit.config.fields.test_image import png

ROUTE = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_each_file_is_served_under_a_name_that_only_gate_can_make(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_bytes(SVG)
    (tmp_path / "b.png").write_bytes(png())
    files = {"a": "a.svg", "b": "b.png", "c": "book"}
    policy = [{"from": f"https://{host}.example.com", "icon": icon, **ROUTE} for host, icon in files.items()]
    hidden = {"from": "https://d.example.com", "icon": "b.png", "portal": "hide", **ROUTE}
    options = make_options(tmp_path, policy=[*policy, hidden])
    icons = Icons(options)
    names = [icons.path_for(route.icon).removeprefix(PATH) for route in options.policy[:2]]
    assert [name[-4:] for name in names] == [".svg", ".png"]
    assert [(found.content, found.media_type) for name in names if (found := icons.find(name))] == [
        (SVG, "image/svg+xml"),
        (png(), "image/png"),
    ]
    other = Icons(make_options(tmp_path, policy=policy, cookie_secret="A" * 43 + "="))
    assert other.find(names[0]) is None
    assert icons.find("") is icons.find("../a.svg") is None
    assert Icons(make_options(tmp_path, policy=[hidden])).find(names[1]) is None
