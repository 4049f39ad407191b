"""Foreign files: archives, workbooks, PDF and images, which are no text even if their bytes can be read as such."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

UNPACK = "a compressed file. Unpack it, and give what is in it."
WORKBOOK = "a workbook of Excel. Save its table as CSV."
DOCUMENT = "a document with formatting. Save it as plain text."
PDF = "a PDF. Extract its text."
IMAGE = "an image. Give text, a table or arrays."
#: First bytes → what a file is, and the remedy.
BY_START: Mapping[bytes, str] = {
    b"PK\x03\x04": UNPACK,
    b"\x1f\x8b": UNPACK,
    b"BZh": UNPACK,
    b"\xfd7zXZ": UNPACK,
    b"7z\xbc\xaf": UNPACK,
    b"\x28\xb5\x2f\xfd": UNPACK,
    b"\xd0\xcf\x11\xe0": WORKBOOK,
    b"%PDF-": PDF,
    b"\x89PNG": IMAGE,
    b"\xff\xd8\xff": IMAGE,
    b"GIF8": IMAGE,
}
#: Suffix → the same; a suffix says more than the first bytes, as many formats are zip files inside.
BY_SUFFIX: Mapping[str, str] = {
    **dict.fromkeys((".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".tar", ".rar"), UNPACK),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), WORKBOOK),
    **dict.fromkeys((".docx", ".doc", ".odt"), DOCUMENT),
    ".pdf": PDF,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"), IMAGE),
}
#: How many bytes `describe_foreign` looks at.
LONGEST = max(map(len, BY_START))


def describe_foreign(file: Path, start: bytes) -> str:
    """What a file is that cannot be read, and the remedy; empty for one that may be text.

    Args:
        file: The file.
        start: Its first bytes, `LONGEST` or more.

    Example:
        describe_foreign(Path("sales.csv.gz"), b"\\x1f\\x8b\\x08")  # "a compressed file. Unpack it, …"
    """
    by_start = next((kind for mark, kind in BY_START.items() if start.startswith(mark)), "")
    return BY_SUFFIX.get(file.suffix.lower(), by_start)
