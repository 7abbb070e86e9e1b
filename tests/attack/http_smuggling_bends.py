"""The lines that frame a message, each bent so that one reader sees it and another does not."""

from collections.abc import Iterator
from itertools import product

CHUNKED = b"Transfer-Encoding: chunked"
_SPACES = (
    b" ",
    b"\t",
    b"\x0b",
    b"\x0c",
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n ",
    b"\r\n\t",
    b"\x1f",
    b"\x7f",
    b"\x85",
    b"\xa0",
    b"\xff",
    b"  ",
    b" \t",
)
_VALUES = (
    *(b"chunked", b"Chunked", b"CHUNKED", b"cHuNkEd", b"xchunked", b"chunkedx", b"chunke", b"chunk", b"x", b"", b"identity", b"gzip"),
    *(
        b"chunked, identity",
        b"identity, chunked",
        b"chunked,",
        b",chunked",
        b"chunked, chunked",
        b"gzip,chunked",
        b"chunked;q=0",
        b"chunked;",
    ),
    *(
        b'"chunked"',
        b"'chunked'",
        b"[chunked]",
        b"(chunked)",
        b"chunked#",
        b"\\chunked",
        b"chun\\ked",
        b"chunk%65d",
        b"=?utf-8?q?chunked?=",
    ),
    *(
        b"\xef\xbd\x83hunked",
        b"chun\xe2\x84\xaaed",
        b"\xef\xbb\xbfchunked",
        b"\xe3\x80\x80chunked",
        b"chunked\xe2\x80\xa8",
        b"ch\xc2\xadunked",
    ),
)
_NAMES = (
    *(b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-ENCODING", b"tRANSFER-eNCODING", b"Transfer_Encoding", b"Transfer.Encoding"),
    *(
        b"TransferEncoding",
        b"Transfer Encoding",
        b"Transfer-Encoding-",
        b"-Transfer-Encoding",
        b"X-Transfer-Encoding",
        b"Transfer--Encoding",
    ),
    *(
        b"Transf\xc3\xa9r-Encoding",
        b"Tran\xc5\xbffer-Encoding",
        b"Transfer\xe2\x80\x90Encoding",
        b'"Transfer-Encoding"',
        b"Transfer-Encoding:",
    ),
)
# Text before the line, as the start of another header; and after it.
_BEFORE = (
    b"",
    b"X: y\r\n",
    b"X: y\n",
    b"X: y\r",
    b"X: y\r\n ",
    b"X: y\r\n\t",
    b"X:\r\n",
    b"X\r\n",
    b": y\r\n",
    b"X: y\x00\r\n",
    b"X: y\r\r\n",
    b" X: y\r\n",
)
_BEHIND = (b"", b"\r\nX: y", b"\nX: y", b"\rX: y", b"\r\n X", b"\r\n\tX", b"\r\nX", b"\r", b"\x00", b"\r\n:", b"\r\n chunked")


def single() -> Iterator[bytes]:
    """One Transfer-Encoding line, bent in one place."""
    for value in _VALUES:
        yield b"Transfer-Encoding: " + value
    for name in _NAMES:
        yield name + b": chunked"
    for space in _SPACES:
        yield from (
            b"Transfer-Encoding" + space + b": chunked",
            b"Transfer-Encoding:" + space + b"chunked",
            b"Transfer-Encoding: chunked" + space,
            space + b"Transfer-Encoding: chunked",
            b"Transfer-" + space + b"Encoding: chunked",
            b"Transfer-Encoding: chun" + space + b"ked",
        )
    for before, behind in product(_BEFORE, _BEHIND):
        yield before + CHUNKED + behind


def exhaustive() -> Iterator[bytes]:
    """Two bends in one line: what precedes, the space before or after the colon, and the value or the name."""
    for space, value in product(_SPACES, _VALUES):
        yield b"Transfer-Encoding:" + space + value
    for space, name in product(_SPACES[:6], _NAMES):
        yield name + space + b": chunked"
    for before, value in product(_BEFORE[1:], _VALUES):
        yield before + b"Transfer-Encoding: " + value


def doubles() -> Iterator[bytes]:
    """Two lines, one of them bent: does a reader take the first, the last, both joined, or none?"""
    for line in single():
        for other in (CHUNKED, b"Transfer-Encoding: identity", b"Transfer-Encoding: x"):
            yield line + b"\r\n" + other
            yield other + b"\r\n" + line


def length_lines() -> Iterator[bytes]:
    """Content-Length, seen by one reader only: `%d` is what it says."""
    for before, behind in product(_BEFORE, _BEHIND[:-1]):
        yield before + b"Content-Length: %d" + behind
    for name in _NAMES:
        yield name.replace(b"Transfer", b"Content").replace(b"TRANSFER", b"CONTENT").replace(b"Encoding", b"Length") + b": %d"
    for space in _SPACES:
        yield from (
            b"Content-Length" + space + b": %d",
            b"Content-Length:" + space + b"%d",
            b"Content-Length: %d" + space,
            space + b"Content-Length: %d",
            b"Content-" + space + b"Length: %d",
            b"Content-Length: " + space + b"%d",
        )
    for sign in (b"+", b"-", b"0", b"0x", b"00", b"1,", b"0,", b'"', b"=", b"\\", b"%%", b"\xef\xbc\x90", b"\xd9\xa0"):
        yield b"Content-Length: " + sign + b"%d"
        yield b"Content-Length: %d" + sign
    for other in (b"0", b"1", b"-1", b"", b"x", b"%d"):
        yield b"Content-Length: %d\r\nContent-Length: " + other
        yield b"Content-Length: " + other + b"\r\nContent-Length: %d"
        yield b"Content-Length: %d\r\nX: y\r\ncontent-length: " + other
