"""Tell a text that is too long for the model in summaries of its sections.

They are made bottom-up; those that are in the document and up to date are used. As many levels of headings are told as
there is room for.
"""

from __future__ import annotations

from lmm.errors import ModelRejected
from lmm.markdown.tree import HeadingNode, own_text, preorder
from lmm.notebook.annotations import annotate
from lmm.notebook.batch import Batch
from lmm.prompts.templates import Prompts

NOTICE = "*(Answered from summaries of the sections: the text is longer than the model can read at once.)*"
CHARACTERS_PER_TOKEN = 4
# The part of a model's window that the text may take; the rest is for instructions, chat and reply.
SHARE = 0.75


def room(window: int) -> int:
    """The characters of text that a window of so many tokens has room for, at four characters to a token."""
    return int(window * SHARE * CHARACTERS_PER_TOKEN)


async def condense(node: HeadingNode, batch: Batch, prompts: Prompts, limit: int) -> str:
    """The text under `node` in at most `limit` characters: headings with their sections' summaries.

    The summaries are written into the nodes of this tree, not into the document.

    Raises:
        ModelRejected: a summary could not be made, or even the summaries are too long.
    """
    batch.tree = node
    await annotate(batch, ("summary",), prompts)
    if batch.failures:
        reason = str(batch.failures[0].error)
        raise ModelRejected("the text is too long, and its sections could not be summarised", hint=reason)
    for depth in range(7, 0, -1):
        text = outline(node, depth)
        if len(text) <= limit:
            return text
    raise ModelRejected("the text is too long for this model, even in summaries", hint="ask about a section of it")


def outline(node: HeadingNode, depth: int) -> str:
    """The headings down to `depth` levels below `node`, each with its section's summary or, without one, its own text.

    >>> from lmm.markdown import load_text
    >>> print(outline(load_text("# A\\n\\none\\n\\n## B\\n\\n---\\nsummary: two\\n---\\n### C\\n\\nmany\\n"), 2))
    # A
    <BLANKLINE>
    one
    <BLANKLINE>
    ## B
    """
    base = len(node.heading_path)
    told = [s for s in preorder(node) if isinstance(s, HeadingNode) and len(s.heading_path) - base < depth]
    parts = list[str]()
    for section in told:
        heading = f"{'#' * section.level} {section.title}" if section.level else ""
        parts += [heading, str(section.own("summary") or own_text(section))]
    return "\n\n".join(filter(None, parts))
