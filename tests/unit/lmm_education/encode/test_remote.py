"""How the replies of embedding servers are read."""

from __future__ import annotations

import pytest

from lmm_education.encode.remote import read_vectors


@pytest.mark.parametrize("reply", [None, [], {}, "text", {"data": None}, {"data": [1]}, {"data": [{"embedding": "a"}]}])
def test_a_reply_of_another_form(reply: object) -> None:
    """Only errors that the adapter expects."""
    with pytest.raises((LookupError, TypeError, ValueError)):
        read_vectors(reply)
