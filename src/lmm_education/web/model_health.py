"""Whether the model that answers can be expected to: what the last question showed, else what its server says."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from lmm import errors
from lmm.config import ModelSettings
from lmm.models.tokens import unreachable

logger = logging.getLogger("lmm.serve")
FRESH = 60.0
"""Seconds for which what is known counts: a monitor that asks every second costs the server one request a minute."""
_DOWN = (
    errors.ModelUnavailable, errors.ModelTimeout, errors.ModelKeyMissing, errors.ModelNotFound,
    errors.ModelNotInstalled,
)  # fmt: skip


@dataclass(slots=True)
class ModelHealth:
    """`reason` says why the model does not answer, as far as is known; it is empty while it does."""

    settings: ModelSettings
    reason: str = ""
    _at: float = field(default=-FRESH)

    def note(self, failure: BaseException | None) -> None:
        """Keep what a question showed: it was answered, or failed so. Failures that are the question's say nothing."""
        if failure is None or isinstance(failure, _DOWN):
            self._keep(str(failure or ""))

    async def check(self) -> str:
        """The reason of now; its server is asked if nothing was known for a minute."""
        if time.monotonic() - self._at >= FRESH:
            self._at = time.monotonic()  # whoever asks meanwhile gets the last answer
            self._keep(await unreachable(self.settings))
        return self.reason

    def _keep(self, reason: str) -> None:
        if reason and not self.reason:
            logger.warning("%s does not answer: %s", self.settings.model, reason)
        elif self.reason and not reason:
            logger.warning("%s answers again", self.settings.model)
        self.reason, self._at = reason, time.monotonic()
