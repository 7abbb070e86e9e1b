"""Picture: a small PNG or an SVG of shapes, and nothing that could run, load or grow."""

import struct
import zlib

import pytest

from config.fields.image import MAX_IMAGE_BYTES, PNG, SVG, detect_image_type

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 24 24">'


def png(width: int = 1, height: int = 1) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\x00\x00")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "inside",
    [
        "",
        '<path d="M0 0h24" fill="#c33" stroke-width="2"/>',
        '<defs><linearGradient id="g"><stop offset="0" stop-color="red"/></linearGradient></defs><rect fill="url(#g)" style="opacity:.5"/>',
        '<g transform="rotate(4)"><title>Wiki</title><circle r="2"/></g>',
        '<linearGradient id="h" xlink:href="#g"/>',
        '<g transform="translate (1 2) skewX(3)"><path fill="var(--fill-0, black)" style="stroke:RGB(0 0 0);r:calc((1 + 2) * 1px)"/></g>',
    ],
)
def test_shapes_are_taken(inside: str) -> None:
    assert detect_image_type(f'<?xml version="1.0"?>{HEAD}{inside}</svg>'.encode()) == SVG


def test_a_png_is_taken() -> None:
    assert detect_image_type(png()) == PNG


@pytest.mark.parametrize(
    "content",
    [
        f"{HEAD}<script>alert(1)</script></svg>",
        f'{HEAD}<script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script></svg>',
        f'{HEAD}<x:script xmlns:x="http://www.w3.org/2000/svg"/></svg>',
        f'{HEAD}<rect onclick="alert(1)"/></svg>',
        f"{HEAD}<foreignObject/></svg>",
        f"{HEAD}<style>*{{background:url(http://x)}}</style></svg>",
        f'{HEAD}<image href="http://x"/></svg>',
        f'{HEAD}<a href="#x"/></svg>',
        f'{HEAD}<use href="#x"/></svg>',
        f'{HEAD}<animate attributeName="href"/></svg>',
        f'{HEAD}<linearGradient xlink:href="http://x"/></svg>',
        f'{HEAD}<linearGradient href="javascript:alert(1)"/></svg>',
        f"{HEAD}<rect style=\"background:image-set('http://x' 1x)\"/></svg>",
        f"{HEAD}<rect style=\"fill:SRC('http://x')\"/></svg>",
        f'{HEAD}<rect fill="url(http://x)"/></svg>',
        f'{HEAD}<rect style="fill:\\75rl(http://x)"/></svg>',
        f'{HEAD}<rect style="fill:\\72 ed"/></svg>',
        f'{HEAD}<rect style="fill:u/**/rl(x)"/></svg>',
        f'{HEAD}<rect style="@import x"/></svg>',
        f'<?xml-stylesheet href="http://x"?>{HEAD}</svg>',
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"/>',
        '<html xmlns="http://www.w3.org/1999/xhtml"/>',
        '<g xmlns="http://www.w3.org/2000/svg"/>',
        "<svg/>",
        f"{HEAD}{'<g>' * 40}{'</g>' * 40}</svg>",
        f"{HEAD}<set attributeName='href' to='javascript:alert(1)'/></svg>",
        f'{HEAD}<linearGradient xlink:href="data:image/svg+xml;base64,AAAA"/></svg>',
        f'{HEAD}<linearGradient href=" #a"/></svg>',
        f'{HEAD}<g xml:base="https://x/"/></svg>',
        f'{HEAD}<g xmlns:ev="http://www.w3.org/2001/xml-events" ev:event="click"/></svg>',
        f'{HEAD}<g xmlns:x="http://www.w3.org/2000/svg" x:onload="alert(1)"/></svg>',
        f"{HEAD}<G/></svg>",
        f"{HEAD}<sCript/></svg>",
        f"{HEAD}<title><script>alert(1)</script></title></svg>",
        f'{HEAD}<title><b xmlns="http://www.w3.org/1999/xhtml">x</b></title></svg>',
        f"{HEAD}<metadata/></svg>",
        f"{HEAD}<switch/></svg>",
        f"{HEAD}<svg/></svg>",
        f"{HEAD}&nbsp;</svg>",
        f"{HEAD}<rect style=\"behavior:url('x')\"/></svg>",
        f"{HEAD}<rect style='fill:url(&quot;https://x&quot;)'/></svg>",
        f"{HEAD}<rect style='-moz-binding:url(//x)'/></svg>",
        f"{HEAD}<rect style='fill:expression(alert(1))'/></svg>",
        f"{HEAD}<path fill='url(#a) url(//x)'/></svg>",
        f"<?xml version='1.0' encoding='UTF-7'?>{HEAD}+ADw-script+AD4-</svg>",
        f"<?xml version='1.0' encoding='latin1'?>{HEAD}</svg>",
        f"<?xml version='1.0' encoding='nonsense'?>{HEAD}</svg>",
        f"{HEAD}</svg>{HEAD}</svg>",
        f"{HEAD}</svg><script>alert(1)</script>",
        f"{HEAD}<g></svg>",
        f"{HEAD}{' ' * MAX_IMAGE_BYTES}</svg>",
        "GIF89a",
        "",
    ],
)
def test_everything_else_is_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"must|contains|is n|is encoded"):
        detect_image_type(content.encode())


@pytest.mark.parametrize("content", [png(0), png(5000), png()[:20], png()[:30]])
def test_a_png_of_another_size_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"pixels|complete|neither"):
        detect_image_type(content)
