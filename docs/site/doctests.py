"""For the site's API page: an example in a docstring is a block of code, for mkdocstrings too."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n(?!>>> )|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"```python\n{found[0].rstrip()}\n```", obj.docstring.value
            )
