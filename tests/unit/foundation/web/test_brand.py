from foundation.web.brand import NO_BRAND, STYLESHEET, Brand, hash_source


def test_an_accent_comes_after_gates_own_style_and_has_its_own_hash() -> None:
    brand = Brand.of("Example Corp", "", "#0b6e4f")
    assert brand.stylesheet.startswith(STYLESHEET)
    assert "--brand: #0b6e4f" in brand.stylesheet
    assert brand.style == hash_source(brand.stylesheet) != NO_BRAND.style


def test_without_an_accent_the_style_is_gates_own() -> None:
    brand = Brand.of("Example Corp", "data:image/png;base64,AA==", None)
    assert (brand.stylesheet, brand.style, brand.accent) == (STYLESHEET, NO_BRAND.style, NO_BRAND.accent)
