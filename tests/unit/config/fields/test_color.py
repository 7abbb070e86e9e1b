import pytest

from config.fields.color import color


@pytest.mark.parametrize(("written", "read"), [("#0B6E4F", "#0b6e4f"), (" #abc ", "#aabbcc"), ("#000000", "#000000")])
def test_a_colour_has_one_form(written: str, read: str) -> None:
    assert color(written) == read


@pytest.mark.parametrize(
    "written", ["", "0b6e4f", "#0b6e4", "#0b6e4g", "rgb(1,2,3)", "#ab", "#fff;}", "#fff\n#fff", "#\u0661\u0662\u0663", None, 7]
)
def test_anything_but_a_colour_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must"):
        color(written)
