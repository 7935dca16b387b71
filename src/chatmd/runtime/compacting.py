"""Automatic compaction: before a conversation outgrows its model, its older part becomes a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chatmd.compaction.compact_file import Compacted, compact_text
from chatmd.compaction.plan import CompactOptions, is_time
from chatmd.runtime.models import Configuration, OpenModel, settings_for_text
from chatmd.workplace import Rules
from lmm.config import ModelSettings, Settings, is_chosen
from lmm.errors import LmmError
from lmm.messages import Usage
from lmm.models.tokens import count_tokens

_FULL = 0.8  # of the window: time to tell the user

_COUNTED, _PIECES = 40_000, 20  # characters; the pieces are spread evenly


@dataclass(slots=True)
class Compactor:
    """Watches how much of its window a conversation takes with `model`. `path` is its file, if it has one.

    The aux model of its `settings` summarises. After a failure nothing more is tried in this run.
    """

    model: ModelSettings
    settings: Settings
    rules: Rules
    open_model: OpenModel
    path: Path | None = None
    _used: int = 0
    _failed: bool = False

    def note(self, usage: Usage) -> None:
        """What the last request took, and what it added."""
        self._used = usage.input_tokens + usage.output_tokens

    @property
    def warning(self) -> str:
        """What the user should know if nothing makes room: how full the window is; empty while there is enough."""
        window = self.model.context_window
        if self._used <= _FULL * window or (self.rules.compact_at and not self._failed):
            return ""
        share = f"{self._used:,} of the model's {window:,} tokens"
        return f"this conversation takes {share}: lmm compact makes room (or correct context_window in config.toml)"

    def is_due(self, text: str) -> bool:
        """Whether it is time, with `text` as the whole conversation. Before the first request, that is estimated."""
        window, share = self.model.context_window, self.rules.compact_at
        if self._failed or not share:
            return False
        if not self._used and len(text) > window * share:  # a token has one character or more
            self._used = _estimate(text)
        return is_time(self._used, window, share)

    async def compact(self, text: str) -> Compacted:
        """The conversation with a summary in it, a quarter of the window long; the original is beside the file.

        Raises:
            LmmError: there is no summary, and `text` stays as it is.
        """
        try:
            options = CompactOptions(to=self.model.context_window // 4)
            model = self.open_model(self.settings.aux)
            done = await compact_text(text, self.settings, options, model=model, path=self.path, roots=self.rules.roots)
        except LmmError:
            self._failed = True
            raise
        self._used = 0
        return done


def summarising(
    text: str, path: Path, configuration: Configuration, *, model: str = "", roots: Sequence[Path] = ()
) -> Settings:
    """The settings with which the conversation in a file is compacted by its aux model; `model` names another.

    Unless somebody chose an aux model, it is the file's own that summarises.

    Raises:
        ConfigError: there is no such model.
    """
    configured = configuration.settings({"aux": model} if model else None)
    return configured if is_chosen(configured, "aux") else settings_for_text(text, path, configuration, roots=roots)


def _estimate(text: str) -> int:
    """About how many tokens a text has; of a long one, pieces of it are counted."""
    if len(text) <= _COUNTED:
        return count_tokens(text)
    step = len(text) // _PIECES
    pieces = "".join(text[at : at + _COUNTED // _PIECES] for at in range(0, step * _PIECES, step))
    return count_tokens(pieces) * len(text) // len(pieces)
