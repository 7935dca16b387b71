"""The annotation model: which properties are embedded with a text, or in place of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmm_education.config import AnnotationModel
from lmm_education.ingestion.outline import Heading

# Text to be found, not an annotation to be embedded with the content: it becomes a chunk of its own.
_NOT_ANNOTATIONS = frozenset({"summary"})


def annotate(model: AnnotationModel, own: Mapping[str, Any], heading: Heading) -> tuple[str, ...]:
    """The annotations of a text with the properties `own` under `heading`, one per item, each once.

    First the model's own properties (those of the text, or of the heading that it stands under), then the
    inherited ones (the nearest of the text, its heading, the headings above, the header), then the generated
    ones (likewise), each in the order of the model. A list gives one annotation per item.

    >>> heading = Heading("Leaves", 1, ("Leaves",), 1, own={"topic": "review"}, all={"topic": "review", "part": 2})
    >>> annotate(AnnotationModel(("topic",), ("part",), ("questions",)), {"questions": ["Why?", "How?"]}, heading)
    ('review', '2', 'Why?', 'How?')
    """
    nearest, near = {**heading.all, **own}, {**heading.own, **own}
    generated = [name for name in model.generated if name not in _NOT_ANNOTATIONS]
    values = [near.get(name) for name in model.own_properties]
    values += [nearest.get(name) for name in (*model.inherited_properties, *generated)]
    return tuple(dict.fromkeys(text for value in values for text in _texts(value)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif value is not None:
        text = " ".join(("true" if value is True else "false" if value is False else str(value)).split())
        if text:
            yield text
