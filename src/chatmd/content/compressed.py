"""What a server sends compressed, unpacked piece by piece and never further than allowed."""

from __future__ import annotations

import zlib

from chatmd.errors import FetchFailed

ACCEPTED = "gzip, deflate"
_ANY_HEADER = 32 + zlib.MAX_WBITS  # gzip or zlib, whichever it begins with
_NO_HEADER = -zlib.MAX_WBITS


class Unpacker:
    """Unpacks a stream, of at most `limit` bytes in all; `coding` is the ``Content-Encoding``.

    >>> unpacker = Unpacker("gzip", 100)
    >>> unpacker.feed(zlib.compress(b"leaf", wbits=31)), unpacker.end()
    (b'leaf', None)

    Raises:
        FetchFailed: of a kind that is not known; from `feed` and `end`: more than `limit`, damaged, cut off.
    """

    def __init__(self, coding: str, limit: int) -> None:
        self._plain = coding in ("", "identity")
        if not self._plain and coding not in ("gzip", "x-gzip", "deflate"):
            raise FetchFailed(f"it is compressed by '{coding[:40]}', which nobody asked for")
        self._limit, self._left = limit, limit
        self._state = None if self._plain else zlib.decompressobj(_ANY_HEADER)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        """What the next piece unpacks to."""
        if self._plain:
            return self._counted(data)
        pieces: list[bytes] = []
        while data:
            if self._state is None:  # a gzip file may have several parts, and something of no meaning behind them
                if not data.startswith(b"\x1f\x8b"):
                    break
                self._state = zlib.decompressobj(_ANY_HEADER)
            # One byte more than is left, so that too much can be told from just enough.
            pieces.append(self._counted(self._unpacked(data, self._left + 1)))
            data = self._state.unconsumed_tail or self._state.unused_data
            if self._state.eof:
                self._state = None
        return b"".join(pieces)

    def end(self) -> None:
        """To be called when there is no more."""
        if self._state is not None and self._started:
            raise FetchFailed("it ended in the middle")

    def _unpacked(self, data: bytes, most: int) -> bytes:
        assert self._state is not None
        try:
            out = self._state.decompress(data, most)
        except zlib.error as error:
            if self._started:
                raise FetchFailed("what it sent is damaged: it cannot be unpacked") from error
            return self._without_header(data, most)
        self._started = True
        return out

    def _without_header(self, data: bytes, most: int) -> bytes:
        """Some servers send what they call deflate without the header that belongs to it."""
        self._state, self._started = zlib.decompressobj(_NO_HEADER), True
        try:
            return self._state.decompress(data, most)
        except zlib.error as error:
            raise FetchFailed("what it sent is damaged: it cannot be unpacked") from error

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._limit)
        return data


def too_large(limit: int) -> FetchFailed:
    """The error of who sends too much."""
    return FetchFailed(
        f"it has more than {megabytes(limit)}", hint="fetch_limit under [chatmd] in config.toml allows more"
    )


def megabytes(size: int) -> str:
    """A number of bytes, for people.

    >>> megabytes(5_000_000), megabytes(1_200), megabytes(10)
    ('5 MB', '1.2 kB', '10 bytes')
    """
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size} bytes"
