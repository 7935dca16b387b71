"""Archives: what is too much is refused before it is unpacked."""

from __future__ import annotations

import io
import zipfile

import pytest

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, ArchiveLimits


def packed(**files: bytes) -> bytes:
    """An archive of files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("limits", [ArchiveLimits(members=1), ArchiveLimits(total=1_000_000)])
def test_a_bomb_is_refused_by_what_it_says_of_itself(limits: ArchiveLimits) -> None:
    """Before anything is unpacked."""
    with pytest.raises(FileReadError, match="too large"):
        Archive(packed(a=b"\0" * 1_000_000, b=b"\0" * 1_000_000), kind="Word", limits=limits)


def test_a_member_that_is_larger_than_it_says_is_not_read_on() -> None:
    """The sizes in an archive may lie."""
    data = packed(a=b"\0" * 1_000_000)
    lying = data.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with Archive(lying, kind="Word") as archive, pytest.raises(FileReadError, match="unpacked"):
        archive.read("a")


def test_pictures_are_bounded_and_are_pictures() -> None:
    """Each, and together as a multiple of the archive, whatever they say of their size; what is refused is empty."""
    gif = b"GIF89a" + b"\0" * 994
    data = packed(a=gif, b=gif, c=gif, large=gif * 2, page=b"<html><svg>")
    limits = ArchiveLimits(picture=1_500, picture_ratio=2_100 // len(data) + 1)
    with Archive(data, kind="Word", limits=limits) as archive:
        assert [len(archive.picture(name)) for name in ("large", "page", "missing", "a", "b", "c")] == [0] * 3 + [
            1_000
        ] * 2 + [0]
    lying = data.replace((2_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with Archive(lying, kind="Word") as archive:
        assert archive.picture("large") == b""


def test_xml_is_bounded_and_has_no_entities() -> None:
    """Entities read other files, and grow to any size."""
    with Archive(packed(a=b"<a/>" * 100), kind="Word", limits=ArchiveLimits(xml=100)) as archive:
        with pytest.raises(FileReadError, match="MB of XML"):
            archive.xml("a")
        with pytest.raises(FileReadError, match="no 'b'"):
            archive.xml("b")
    for encoding in ("utf-8", "utf-16"):
        bomb = '<!DOCTYPE a [<!ENTITY x "xxx">]><a>&x;</a>'.encode(encoding)
        with Archive(packed(a=bomb), kind="Word") as archive, pytest.raises(FileReadError, match="entities"):
            archive.checked("a")
    with Archive(packed(a=b'<!DOCTYPE html PUBLIC "x" "y"><a/>'), kind="Word") as archive:
        assert archive.xml("a").tag == "a"


def test_a_password_is_told() -> None:
    """With what to do."""
    data = bytearray(packed(a=b"1"))
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    with pytest.raises(FileReadError, match="password"):
        Archive(bytes(data), kind="Word")
