"""Composing the requests for pending prompts: what the model is sent, and in which words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmm.config import DEFAULT_ROLE, DEFAULT_SYSTEM
from lmm.markdown.blocks import serialize
from lmm.messages import Attachment, ChatRequest, Message
from lmm.notebook.chat_log import ChatExchange
from lmm.notebook.edit_reply import tag_for
from lmm.notebook.pending_prompts import PendingPrompt, Subject
from lmm.prompts.templates import Prompts, packaged_prompt


def request_for(ask: PendingPrompt, chat: Sequence[ChatExchange], system: str, prompts: Prompts) -> ChatRequest:
    """Return the request for a pending prompt; `chat` is the conversation that it continues."""
    if ask.is_edit:
        first = ask.revises.prompt if ask.revises else ask.prompt.text
        request = edit_request(ask.subject, first, system, prompts)
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
    text = "\n\n".join([last.text, *(f"({one})" for one in ask.unknown)])
    attachments, pictures = (*last.attachments, *ask.mentions.texts), () if ask.blind else ask.mentions.pictures
    last = replace(last, text=text, attachments=attachments, content=pictures)
    return replace(request, messages=(*earlier, last))


def chat_request(subject: Subject, prompt: str, earlier: Sequence[tuple[str, str]], system: str) -> ChatRequest:
    """Return a request: system message, the text, the earlier prompts and replies of this chat, the prompt."""
    messages = [Message("system", f"{system}\n\n{packaged_prompt('tags')}\n\n{packaged_prompt('fences')}")]
    for number, (asked, reply) in enumerate([*earlier, (prompt, None)]):
        messages.append(Message("user", asked, _documents(subject) if number == 0 else ()))
        if reply is not None:
            messages.append(Message("assistant", reply))
    return ChatRequest(tuple(messages))


def edit_request(subject: Subject, prompt: str, system: str, prompts: Prompts) -> ChatRequest:
    """Return the request for an edit of the text; if there is no text, the model is asked to write it."""
    role = DEFAULT_ROLE if system == DEFAULT_SYSTEM else system  # how to answer a question is not said
    name, tag = "edit" if subject.text else "write", tag_for(subject.text, prompt)
    wording = prompts.fill(name, prompt=prompt, tag=tag, place=_place(subject))
    return ChatRequest(
        (
            Message("system", f"{role}\n\n{packaged_prompt('tags')}"),
            Message("user", wording, _documents(replace(subject, header=""))),
        ),
        "edit",
    )


def _place(subject: Subject) -> str:
    """Return what an edit is told about the heading above its text."""
    if not subject.level or subject.kind == "paragraph":
        return ""
    below = f", and with {'#' * (subject.level + 1)} for headings in it" if subject.level < 6 else ""
    where = f" The text is under the heading '{subject.path[-1]}' (level {subject.level})"
    return f"{where}, which stays and is not part of it: begin without it{below}."


def _documents(subject: Subject) -> tuple[Attachment, ...]:
    source = " > ".join(subject.path).replace('"', "'")
    documents = (
        Attachment(subject.header, "header"),
        Attachment(subject.context, "context", "".join(subject.path[:1])),
        Attachment(subject.text, "text", source),
    )
    return tuple(document for document in documents if document.text)
