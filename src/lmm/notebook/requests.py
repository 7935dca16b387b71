"""Composing the requests for pending prompts: what the model is sent of a document. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmm.markdown.blocks import HeadingBlock, serialize
from lmm.messages import Attachment, ChatRequest, Message
from lmm.notebook.chat_log import (
    ChatExchange,
)
from lmm.notebook.edit_reply import tag_for
from lmm.notebook.pending_prompts import PendingPrompt, Subject
from lmm.prompts.templates import Prompts


def request_for(ask: PendingPrompt, chat: Sequence[ChatExchange], system: str, prompts: Prompts) -> ChatRequest:
    """Return the request for a pending prompt; `chat` is the conversation that it continues."""
    if ask.is_edit:
        place, first = _place_of_edit(ask.request.heading), ask.revises.prompt if ask.revises else ask.prompt.text
        request = edit_request(ask.subject, first, system, prompts, place)
        if ask.revises is not None:
            tag = tag_for(ask.subject.text, first, ask.prompt.text)
            latest = f"<{tag}>\n{serialize(ask.revises.new).strip()}\n</{tag}>"
            wording = prompts.fill("edit_again", prompt=ask.prompt.text, tag=tag)
            request = replace(
                request, messages=(*request.messages, Message("assistant", latest), Message("user", wording))
            )
    else:
        request = chat_request(ask.subject, ask.prompt.text, [(e.prompt, e.reply) for e in chat], system)
    *earlier, last = request.messages
    attachments, pictures = (*last.attachments, *ask.mentions.texts), () if ask.blind else ask.mentions.pictures
    return replace(request, messages=(*earlier, replace(last, attachments=attachments, content=pictures)))


def chat_request(subject: Subject, prompt: str, earlier: Sequence[tuple[str, str]], system: str) -> ChatRequest:
    """Return a request: system message, the text, the earlier prompts and replies of this chat, the prompt."""
    messages = [Message("system", system)]
    for number, (asked, reply) in enumerate([*earlier, (prompt, None)]):
        messages.append(Message("user", asked, _documents(subject) if number == 0 else ()))
        if reply is not None:
            messages.append(Message("assistant", reply))
    return ChatRequest(tuple(messages))


def edit_request(subject: Subject, prompt: str, system: str, prompts: Prompts, place: str = "") -> ChatRequest:
    """Return the request for an edit of the text; if there is no text, the model is asked to write it.

    `place` says under which heading the text stands.
    """
    wording = prompts.fill(
        "edit" if subject.text else "write", prompt=prompt, tag=tag_for(subject.text, prompt), place=place
    )
    documents = tuple(d for d in _documents(subject) if d.text)
    return ChatRequest((Message("system", system), Message("user", wording, documents)), "edit")


def _place_of_edit(heading: HeadingBlock | None) -> str:
    if heading is None:
        return ""
    below = f", and with {'#' * (heading.level + 1)} for headings in it" if heading.level < 6 else ""
    where = f" The text is under the heading '{heading.title}' (level {heading.level})"
    return f"{where}, which stays and is not part of it: begin without it{below}."


def _documents(subject: Subject) -> tuple[Attachment, ...]:
    source = " > ".join(subject.path).replace('"', "'")
    context = (Attachment(subject.context, "context", source),) if subject.context else ()
    return (Attachment(subject.text, "text", source), *context)
