"""Which store the settings name, and what is refused before anything is sent."""

from __future__ import annotations

import pytest

from lmm.errors import ConfigError
from lmm_education.config import StorageSettings
from lmm_education.store.open import open_store


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    """It would stand in every message about the server."""
    with pytest.raises(ConfigError) as refused:
        open_store(StorageSettings(url="http://user:secret@127.0.0.1:6333"), env={})
    assert "secret" not in str(refused.value)
    assert "api_key_env" in str(refused.value)


@pytest.mark.parametrize("course", ["", "../x", "a/b", ".hidden"])
def test_a_course_is_a_folder_of_its_own(course: str) -> None:
    """Its name cannot lead elsewhere."""
    with pytest.raises(ConfigError, match="course"):
        open_store(StorageSettings(course=course), env={})
