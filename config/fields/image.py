"""Image on pages: a small PNG, or an SVG that contains only shapes. Scripts, external resources and references are rejected."""

import re
import struct
import xml.parsers.expat
from typing import NoReturn

PNG, SVG = "image/png", "image/svg+xml"
MAX_IMAGE_BYTES = 64 * 1024  # bytes
MAX_PIXELS = 1024  # pixels
MAX_DEPTH = 32

_PNG_BEGINS = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_NAMESPACE = "http://www.w3.org/2000/svg"
# Without `use`: nested references can expand to a billion shapes.
_SHAPES = re.compile(
    "svg|g|defs|title|desc|path|rect|circle|ellipse|line|polyline|polygon|linearGradient|radialGradient|stop|clipPath|mask"
)
_ATTRIBUTES = re.compile(
    "id|class|viewBox|version|preserveAspectRatio|width|height|x|y|x1|y1|x2|y2|cx|cy|r|rx|ry|fx|fy|d|points|transform|offset"
    "|gradientUnits|gradientTransform|spreadMethod|clipPathUnits|maskUnits|maskContentUnits|pathLength|role|href"
    "|fill|fill-opacity|fill-rule|stroke|stroke-(?:width|linecap|linejoin|miterlimit|dasharray|dashoffset|opacity)|opacity|color"
    "|stop-color|stop-opacity|clip-path|clip-rule|mask|paint-order|shape-rendering|vector-effect|style"
)
# References within the image itself.
_LOCAL = re.compile(r"#[A-Za-z_][\w.-]*")
_URL = re.compile(r"url\(\s*(['\"]?)#[A-Za-z_][\w.-]*\1\s*\)")
# CSS functions that only compute. Others load resources, not only `url` (`image-set`, `src`, `image`).
_COMPUTING = "rgba?|hsla?|hwb|(?:ok)?l(?:ab|ch)|color|var|calc|matrix|translate[xy]?|rotate|scale[xy]?|skew[xy]"
_OTHER_FUNCTION = re.compile(rf"(?<![\w-])(?!(?:{_COMPUTING})\s*\()[\w-]+\s*\(", re.IGNORECASE)


# enforcement-point: Pages: Uploaded images
def detect_image_type(content: bytes) -> str:
    """Return the media type, PNG or SVG.

    Raises ValueError for anything else, for an image that is too large, and for an SVG that contains more than shapes.
    """
    if len(content) > MAX_IMAGE_BYTES:
        raise ValueError(f"must be at most {MAX_IMAGE_BYTES // 1024} KiB")
    if content.startswith(_PNG_BEGINS):
        _check_png(content)
        return PNG
    _SvgValidator().check(content)
    return SVG


def _check_png(content: bytes) -> None:
    if len(content) < 33:
        raise ValueError("is not a complete PNG")
    width, height = struct.unpack(">II", content[16:24])
    if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
        raise ValueError(f"must be at most {MAX_PIXELS} pixels wide and high")


class _SvgValidator:
    def __init__(self) -> None:
        self._depth = 0
        self._parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.ProcessingInstructionHandler = self._refuse_instruction
        self._parser.XmlDeclHandler = self._require_utf8

    def check(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except xml.parsers.expat.ExpatError as error:
            raise ValueError(f"is neither a PNG nor a complete SVG: {error}") from None

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, element = name.rpartition(" ")
        if namespace != _NAMESPACE or not _SHAPES.fullmatch(element) or (self._depth == 0) is not (element == "svg"):
            raise ValueError(f"contains <{element[:40]}>. Use an SVG of shapes only, saved as plain SVG")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("is nested too deeply")
        for attribute, value in attributes.items():
            _check_attribute(attribute.replace("http://www.w3.org/1999/xlink ", ""), value)

    def _end_element(self, name: str) -> None:
        self._depth -= 1

    def _require_utf8(self, version: str, encoding: str | None, standalone: int) -> None:
        """Reject encodings in which a browser could decode the same bytes to different markup."""
        if encoding is not None and encoding.lower() not in ("utf-8", "us-ascii"):
            raise ValueError(f"is encoded in {encoding[:40]}. Save it in UTF-8")

    def _refuse_doctype(self, *args: object) -> NoReturn:
        raise ValueError("contains a document type, which is not allowed. Remove it")

    def _refuse_instruction(self, *args: object) -> NoReturn:
        raise ValueError("contains a processing instruction, which is not allowed. Remove it")


def _check_attribute(name: str, value: str) -> None:
    if not _ATTRIBUTES.fullmatch(name) and name != "http://www.w3.org/XML/1998/namespace space":
        raise ValueError(f"contains the attribute {name.rpartition(' ')[2][:40]}. Use an SVG of shapes only, saved as plain SVG")
    if name == "href" and not _LOCAL.fullmatch(value):
        raise ValueError(f"contains an external reference: href={value[:40]!r}")
    rest = _URL.sub("", value)
    if name != "href" and (_OTHER_FUNCTION.search(rest) or "\\" in rest or "@" in rest or "/*" in rest):
        raise ValueError(f"contains an external reference: {name}={value[:40]!r}")
