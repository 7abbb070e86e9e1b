import pytest

from config.fields.display_text import display_text


def test_line_is_short_and_printable() -> None:
    read = display_text(5).read
    assert read(" Zoë ") == "Zoë"
    assert read("<b>&") == "<b>&"  # pages escape it
    for invalid in ("123456", "a\u202eb", "a\nb", "", " "):
        with pytest.raises(ValueError, match="must"):
            read(invalid)
