"""Files of cases: what is read from them, and what is told of those that cannot be used."""

from __future__ import annotations

import pytest

from chatmd.errors import InvalidCases
from chatmd.refine.cases import parse_cases

YAML = """
- name: france
  input: Capital of France?
  contains: [Paris, "on the Seine"]
  max_tokens: 20
- input: |
    Two
    lines
  equals: yes
  held_out: true
"""


def test_the_forms_agree() -> None:
    """YAML, JSON and JSON lines, with or without a key above them."""
    cases = parse_cases(YAML, ".yaml", name="c.yaml")
    assert [case.name for case in cases] == ["france", "case 2"]
    assert cases[1].input == "Two\nlines\n"
    assert cases[1].checks[0].value == "yes"  # YAML 1.2: a word is a word
    assert cases[1].held_out is True
    rows = (
        '{"name": "france", "input": "Capital of France?", "contains": ["Paris", "on the Seine"], "max_tokens": 20}',
        '{"input": "Two\\nlines\\n", "equals": "yes", "held_out": true}',
    )
    assert parse_cases("\ufeff" + "\n".join(rows), ".jsonl", name="c.jsonl") == cases
    assert parse_cases(f'{{"cases": [{",".join(rows)}]}}', ".json", name="c.json") == cases
    assert parse_cases(f"cases:\n{YAML}", ".yml", name="c.yml") == cases


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", ".yaml", "a file of cases is a list"),
        ("[]", ".json", "there is no case"),
        ("- input: a\n  equal: b\n", ".yaml", "c:1: unknown key 'equal' .did you mean 'equals'"),
        ("- input: a\n- equals: b\n", ".yaml", "c:1: this case checks nothing"),
        ("- equals: b\n", ".yaml", "c:1: this case has no input"),
        ("- just text\n", ".yaml", "c:1: a case is a mapping"),
        ("- {input: a, regex: '('}\n", ".yaml", "c:1: 'regex' is not a regular expression"),
        ("- {input: a, equals: b, held_out: perhaps}\n", ".yaml", "'held_out' must be true or false"),
        ("- {name: a, input: a, equals: b}\n- {name: a, input: a, equals: b}\n", ".yaml", "c:2: there are two cases"),
        ("- {input: a, json_schema: s.json}\n", ".yaml", "'json_schema' must be a JSON schema here"),
        ('{"input": "a"\n', ".jsonl", "c:1: not JSON"),
        ("- [\n", ".yaml", "not YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, kind: str, message: str) -> None:
    with pytest.raises(InvalidCases, match=message):
        parse_cases(text, kind, name="c")
