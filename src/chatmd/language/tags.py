"""The vocabulary: one row per tag, with its attributes, the elements it may be in, and one line of help.

Tags are lower case, and compared whole; a tag that is not in this table is literal text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

DOCUMENT = ""  # the name of the document itself as a parent


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """An attribute of a tag, and its kind: text, words between commas, a flag (present or not), a number."""

    name: str
    help: str
    kind: Literal["text", "list", "flag", "integer", "number"] = "text"


@dataclass(frozen=True, slots=True)
class Tag:
    """One element: `parents` are the tags it may be in; if it `is_void`, its content is ignored."""

    name: str
    help: str
    attributes: tuple[AttributeRule, ...]
    parents: tuple[str, ...] = (DOCUMENT,)
    is_void: bool = False

    def attribute(self, name: str) -> AttributeRule | None:
        """Return the rule for an attribute, or None if the tag does not have it."""
        return next((rule for rule in self.attributes if rule.name == name), None)


ROLES = ("user", "assistant", "system", "developer", "tool")
# Elements whose text, documents, images and agents are sent to the model.
BODIES = ("msg", "user", "assistant", "system", "developer", "tool_call", "tool_response", "agent")
# Elements into which files are imported; <msg> only with one of these roles.
IMPORTING = ("user", "system", "developer", "agent")

_NAME = AttributeRule("name", "a label for people; not sent")
_ID = AttributeRule("id", "the provider's id of this item")
_STATUS = AttributeRule("status", "how far the item got: completed, incomplete, failed")
_PHASE = AttributeRule("phase", "which part of a turn an assistant's text belongs to")
_TYPE = AttributeRule("type", "custom_tool_call for a call whose argument is free text")
_FUNCTION = AttributeRule("function_name", "the function that is called")
_CALL = AttributeRule("tool_call_id", "links the call to its response")
_SRC = AttributeRule("src", "a path or URL")
_LOCAL = AttributeRule("local", "src is a file on disk", "flag")
_RECORD = AttributeRule("record", "the files beside this one with the agent's transcript; not sent")
_SIGNATURE = AttributeRule("signature", "what the provider wants back with it, as it gave it")
_PROVIDER = AttributeRule("provider", "the provider, or the model at its address, that can recognise it")
_COMMON = (_NAME, _ID, _STATUS)

_ROWS: Iterable[Tag] = (
    Tag(
        "config",
        "the model and its parameters; once, near the top",
        (
            AttributeRule("model", "the model's name"),
            AttributeRule("max_tokens", "the longest reply, in tokens", "integer"),
            AttributeRule("temperature", "0 for the most likely words, more for variety", "number"),
            AttributeRule("reasoning_effort", "none, minimal, low, medium, high, xhigh or detailed"),
            AttributeRule("show_tool_call", "keep calls and results in this file, not in files beside it", "flag"),
            AttributeRule("id", "a label for the session"),
        ),
        is_void=True,
    ),
    Tag(
        "tool",
        "a function that the assistant may call",
        (
            AttributeRule("name", "the function's name"),
            AttributeRule("description", "what it does, for the model"),
            AttributeRule("command", "the program to run, with its first arguments"),
            AttributeRule("agent", "the ChatMD file that does the work"),
            AttributeRule("local", "the agent's file is on disk", "flag"),
            AttributeRule("mcp_server", "the MCP server whose tools are offered"),
            AttributeRule("include", "as includes, which it overrides", "list"),
            AttributeRule("includes", "the tools of the server to offer, between commas", "list"),
            AttributeRule("prefix", "a prefix for the names of the server's tools"),
            AttributeRule("strict", "the model must keep to the tool's schema", "flag"),
            AttributeRule("client_id_env", "the environment variable with the client's id"),
            AttributeRule("client_secret_env", "the environment variable with the client's secret"),
            AttributeRule("issuer", "the authorization server that may get the secret; by default the server itself"),
            AttributeRule("roots", "the folders that it may touch, between commas; this file's if left out", "list"),
            AttributeRule(
                "cwd", "the folder in which a command runs, a file tool's paths begin; this file's if left out"
            ),
            AttributeRule("env", "the environment variables that a command gets, between commas", "list"),
            AttributeRule("sandbox", "a command reaches no network, and writes below the roots alone", "flag"),
            AttributeRule("timeout", "how long a call may take, in seconds", "number"),
            AttributeRule("max_output", "how many characters of its output are kept", "integer"),
            AttributeRule("course", "the folder of the course that is searched"),
        ),
        is_void=True,
    ),
    Tag(
        "input",
        "a parameter of the prompt; {{name}} in its messages is replaced by its value",
        (
            AttributeRule("name", "its name"),
            AttributeRule("type", "string, integer, number or boolean"),
            AttributeRule("description", "a description, for the caller of the agent"),
            AttributeRule("default", "its value, if none is set"),
            AttributeRule("value", "the value that was set"),
        ),
        is_void=True,
    ),
    Tag(
        "output",
        "what the last reply has to be",
        (
            AttributeRule("schema", "the JSON schema that it fits, in a file"),
            AttributeRule("check", "a program that reads it and exits with 0 if it is right"),
            AttributeRule("retries", "how often the model is asked again; 2 if left out", "integer"),
        ),
        is_void=True,
    ),
    Tag(
        "msg",
        "a message",
        (
            AttributeRule("role", "who speaks: user, assistant, system, developer, tool"),
            *_COMMON,
            AttributeRule("tool_call", "with role assistant: this is a call, as <tool_call>", "flag"),
            _FUNCTION,
            _CALL,
            _TYPE,
            _PHASE,
        ),
    ),
    Tag("user", 'what the user says; <msg role="user">', _COMMON),
    Tag("assistant", 'what the model said; <msg role="assistant">', (*_COMMON, _PHASE)),
    Tag("system", 'instructions for the conversation; <msg role="system">', _COMMON),
    Tag("developer", 'instructions for the conversation; <msg role="developer">', _COMMON),
    Tag(
        "tool_call",
        "the model calls a function; the body is its arguments",
        (_FUNCTION, _CALL, *_COMMON, _TYPE, _SIGNATURE, _PROVIDER),
    ),
    Tag("tool_response", 'what a call returned; <msg role="tool">', (_CALL, *_COMMON, _TYPE, _RECORD)),
    Tag("reasoning", "a model's thoughts, as far as it shows them", (_ID, _STATUS, _SIGNATURE, _PROVIDER)),
    Tag(
        "summary",
        "one thought of a <reasoning>",
        (AttributeRule("type", "summary_text unless the provider says otherwise"),),
        ("reasoning",),
    ),
    Tag(
        "import",
        "another file, put in its place before anything else is read",
        (AttributeRule("src", "a path, relative to this file"), _LOCAL),
        (DOCUMENT, "msg", *IMPORTING),
        is_void=True,
    ),
    Tag("img", "an image", (_SRC, _LOCAL, AttributeRule("alt", "what it shows; not sent")), BODIES, is_void=True),
    Tag(
        "doc",
        "the text of a document",
        (
            _SRC,
            _LOCAL,
            AttributeRule("strip", "without HTML tags", "flag"),
            AttributeRule("markdown", "converted to markdown", "flag"),
        ),
        BODIES,
        is_void=True,
    ),
    Tag("agent", "the answer of another ChatMD file; the body is more input for it", (_SRC, _LOCAL), BODIES),
)

TAGS: dict[str, Tag] = {tag.name: tag for tag in _ROWS}
# Elements without content: if one is not closed, it ends with its opening tag.
VOID = frozenset(tag.name for tag in TAGS.values() if tag.is_void)


def means_something(tag: str, parent: str, role: str | None = None) -> bool:
    """Return whether an element has a meaning inside `parent` (with this ``role`` attribute); otherwise it is text.

    At the top level there is no text, so that each tag is an element.

    >>> means_something("doc", "user"), means_something("summary", "user"), means_something("summary", DOCUMENT)
    (True, False, True)
    >>> [means_something("import", "msg", role) for role in ("System", "assistant")]
    [True, False]
    """
    if tag == "import" and parent == "msg":
        return (role or "").strip().lower() in IMPORTING[:3]
    return parent == DOCUMENT or parent in TAGS[tag].parents
