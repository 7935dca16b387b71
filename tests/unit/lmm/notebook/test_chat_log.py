"""The chat log: replies placed (tests/golden/chat/*.md), logs read, chats continued and cleared."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases

from lmm import Document
from lmm.markdown import MetadataBlock, parse_markdown_text
from lmm.notebook.chat_log import ChatExchange, clear_chat, current_chat, read_log, unless_emptied
from lmm.testing import ScriptedModel

MODEL = "Scripted/m"


@pytest.mark.parametrize("case", read_cases("chat"), ids=str)
def test_golden(case: Case) -> None:
    """Each reply goes into the log beside its prompt, exactly; no other byte changes, and nothing waits any more."""
    before, *replies = case.source.split("<=\n")
    texts = [reply.removesuffix("\n") for reply in replies]
    document = Document.from_text(before)
    asks = document.pending
    document.answer(model=ScriptedModel(texts, name=MODEL)).check()
    assert document.text == case.after
    assert document.pending == ()
    logged = [exchange for exchange in document.chats if exchange.model == MODEL]
    assert [e.reply for e in logged] == texts
    assert [(e.word, e.prompt) for e in logged] == [(ask.prompt.word, ask.prompt.text) for ask in asks]


def _query(prompt: str, reply: str = "r") -> ChatExchange:
    return ChatExchange("query", prompt, reply)


def _message(prompt: str, reply: str = "r") -> ChatExchange:
    return ChatExchange("message", prompt, reply)


@pytest.mark.parametrize(
    ("body", "log"),
    [
        ("a: 1\n", ()),
        ("~chat_:\n  - query: q\n    ~reply: r\n", (_query("q"),)),
        ("~chat_:\n  - message: q\n    ~reply: r\n    ~~model: M/m\n", (ChatExchange("message", "q", "r", "M/m"),)),
        ("~chat_:\n  - query: q\n    reply: edited by the author\n", (_query("q", "edited by the author"),)),
        ("~chat_:\n  - query: q\n    ~reply: old\n    reply=: mine\n", (_query("q", "mine"),)),
        ("~chat_:\n  - query: 1\n    ~reply: yes\n", (_query("1", "yes"),)),
        ("~chat_:\n  - query: no reply\n  - just text\n  - query: q\n    ~reply: r\n", (_query("q"),)),
        ("~chat_: not a list\n", ()),
        ("~chat: [q, r, +, r2]\n", (_query("q"), _query("+", "r2"))),
        ("~chat: [q, r, waiting]\n", (_query("q"),)),
        ("~chat: [old, r]\n~chat_:\n  - message: new\n    ~reply: r\n", (_query("old"), _message("new"))),
    ],
)
def test_read_log(body: str, log: tuple[ChatExchange, ...]) -> None:
    """Both forms are read, the older first; what has no prompt or no reply is left out."""
    block = MetadataBlock(f"---\n{body}---\n", 1)
    assert read_log(block.values()) == log


@pytest.mark.parametrize(
    ("words", "kept"),
    [("", ""), ("q", "q"), ("qm", "qm"), ("qmq", "q"), ("qmqmm", "qmm"), ("mm", "mm"), ("qq", "q")],
)
def test_current_chat(words: str, kept: str) -> None:
    """A query starts a new chat: what is continued begins with the last one."""
    log = tuple(_query(str(i)) if word == "q" else _message(str(i)) for i, word in enumerate(words))
    chat = current_chat(log)
    assert "".join(exchange.word[0] for exchange in chat) == kept
    assert log[len(log) - len(chat) :] == chat


@pytest.mark.parametrize(
    ("body", "cleared", "cleared_with_pending"),
    [
        ("a: 1\n", "a: 1\n", "a: 1\n"),
        ("~chat_:\n  - query: q\n    ~reply: r\n", "", ""),
        ("# c\n~chat_:\n- query: q\n  ~reply: r\n# d\na: 1\n", "# c\n# d\na: 1\n", "# c\n# d\na: 1\n"),
        ("~chat: [q, r]\n~chat_: []\na: 1\n", "a: 1\n", "a: 1\n"),
        ("?: one\na: 1\n+: two\n", "?: one\na: 1\n+: two\n", "a: 1\n"),
        ("~chat_: [x]\n+: go on\n  and on\n", "+: go on\n  and on\n", ""),
        ("~summary_: kept\n~chat_: [x]\n", "~summary_: kept\n", "~summary_: kept\n"),
    ],
)
def test_clear_chat(body: str, cleared: str, cleared_with_pending: str) -> None:
    """The log goes, with `pending` unanswered prompts too; every other line stays."""
    block = MetadataBlock(f"---\n{body}---\n", 1)
    assert clear_chat(block).body == cleared
    assert clear_chat(block, pending=True).body == cleared_with_pending


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("---\n---\nText.\n", False),
        ("---\na: 1\n---\nText.\n", True),
        ("---\n---\n---\na: 1\n---\nText.\n", True),
        ("\ufeff---\n---\nText.\n", True),
    ],
)
def test_unless_emptied(text: str, stays: bool) -> None:
    """An empty block goes, except a header whose place another block would take, or that holds the byte order mark."""
    header, following, *_ = parse_markdown_text(text)
    assert isinstance(header, MetadataBlock)
    assert unless_emptied(header, following) == ([header] if stays else [])


def test_a_question_with_its_reply_in_the_flat_log_is_answered() -> None:
    """As lm-markdown writes it: the line stays, and nothing is asked again."""
    text = "# A\n\n---\nquery: why green?\n~chat:\n  - why green?\n  - Because.\n---\nLeaves.\n"
    document = Document.from_text(text)
    assert document.pending == ()
    assert [(each.prompt, each.reply) for each in document.chats] == [("why green?", "Because.")]
