"""What a document's dialect reads as one block is one unit for a question or an edit."""

from __future__ import annotations

import pytest

from lmm import Document

UNITS = {
    "TeX": "\\begin{theorem}\nThe sum is is even.\n\nThis is well known.\n\\end{theorem}",
    "TeX in TeX": "\\begin{a}\nOne.\n\n\\begin{b}\nTwo.\n\n\\end{b}\n\nThree.\n\\end{a}",
    "a formula": "\\[\na = b\n\n+ c\n\\]",
    "a div of HTML": '<div class="note">\n\nOne.\n\nTwo.\n\n</div>',
    "divs in divs": "<div>\n<div>\n\nOne.\n\n</div>\n\nTwo.\n\n</div>",
    "details": "<details>\n<summary>More</summary>\n\nOne.\n\nTwo.\n</details>",
    "Liquid": "{% capture x %}\n\nOne.\n\nTwo.\n\n{% endcapture %}",
    "Hugo": "{{% notice tip %}}\n\nOne.\n\nTwo.\n\n{{% /notice %}}",
    "Hugo's other brackets": "{{< details >}}\n\nOne.\n\nTwo.\n\n{{< /details >}}",
    "MkDocs": "!!! note\n    One.\n\n    Two.",
    "MkDocs with a title": '!!! note "A title"\n\n    One.\n\n    Two.',
    "MkDocs, folded": "??? tip\n    One.\n\n    Two.",
    "MyST with a title": ":::{admonition} On macOS\nOne.\n\nTwo.\n:::",
    "MyST with arguments": ":::{figure} a.png\n:name: x\n\nOne.\n\nTwo.\n:::",
    "Docusaurus": ":::note[A title]\n\nOne.\n\nTwo.\n\n:::",
    "VitePress": "::: tip A title\nOne.\n\nTwo.\n:::",
    "MDX": '<Callout type="info">\n\nOne, with <Icon />.\n\n<Badge />\n\nTwo.\n\n</Callout>',
    "Pandoc": "::: {.callout-tip}\n\nOne.\n\nTwo.\n\n:::",
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_sent_and_replaced_whole(name: str) -> None:
    """A question above it is about all of it, and about nothing else."""
    document = Document.from_text(f"# A\n\nBefore.\n\n---\n=: shorter\n---\n{UNITS[name]}\n\nAfter.\n")
    (pending,) = document.pending
    assert pending.subject.text == UNITS[name]
