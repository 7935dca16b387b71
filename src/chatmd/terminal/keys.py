"""Keys of the prompt, besides those of line editing, which are Emacs' as in most shells."""

from __future__ import annotations

from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys


class Prompt(Protocol):
    """What keys act upon."""

    buffer: Buffer

    def submit(self) -> None:
        """Hand over what is typed."""
        ...

    def interrupt(self) -> None:
        """Cancel, or empty the line, or leave."""
        ...

    def leave(self) -> None:
        """End the conversation."""
        ...

    async def edit(self) -> None:
        """Open the user's editor."""
        ...


def key_bindings(prompt: Prompt) -> KeyBindings:
    """The keys that `slash_commands.KEYS` explains."""
    keys = KeyBindings()
    typing = has_focus(prompt.buffer)
    empty = Condition(lambda: not prompt.buffer.text)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        # A terminal that does not mark what is pasted sends its lines at once: none of them but the last is sent.
        if any(key.key not in (Keys.CPRResponse, Keys.Ignore) for key in event.key_processor.input_queue):
            prompt.buffer.insert_text("\n")
        else:
            prompt.submit()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        prompt.buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        if event.app.current_buffer is prompt.buffer:
            prompt.interrupt()
        else:  # the search
            event.app.layout.focus(prompt.buffer)

    @keys.add("c-d", filter=typing & empty)
    def _(event: KeyPressEvent) -> None:
        prompt.leave()

    @keys.add("c-x", "c-e", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(prompt.edit())

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys
