"""Replies to requests for edits as models write them (tests/fixtures/edits): the text is taken, and only the text."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import talking

from lmm import Document
from lmm.errors import EditError, EmptyReply, NoEdit
from lmm.notebook.edit_reply import EditRequest, new_text
from lmm.testing import ScriptedModel

CASES = Path(__file__).parents[3] / "fixtures" / "edits" / "edits.md"
DOCUMENT = "---\ntitle: Woods\n---\n# Plants\n\n---\n=: {}\n---\n## Trees\n\n{}\n\n## Rocks\n\nRocks lie.\n"
REMARK = "I kept your terms. Shall I shorten the next section as well?"
WRAPPERS = {
    "tags": "<new>\n{}\n</new>",
    "a remark below": f"<new>\n{{}}\n</new>\n\n{REMARK}",
    "words around": "Here is the revised section:\n\n<new>\n{}\n</new>\nLet me know what you think of it.",
    "tags in a line": "<new>{}</new>",
    "a fence around tags": "```markdown\n<new>\n{}\n</new>\n```",
    "a fence in tags": "<new>\n````markdown\n{}\n````\n</new>",
    "tags named before": "I wrote it between `<new>` and `</new>`:\n<new>\n{}\n</new>",
    "a preamble": "Sure! Here is the revised text:\n\n{}",
    "a preamble and a remark": "Here's the new version:\n\n{}\n\nLet me know if you want other changes.",
    "a list of changes": "{}\n\n**Changes made:**\n\n- corrected the spelling\n- kept the rest",
    "rules": "Certainly! Here is the text:\n\n---\n\n{}\n\n---\n\nI kept the terms that you used.",
    "a fence": "````markdown\n{}\n````",
    "a fence with words": "Here is the text:\n\n````md\n{}\n````\n\nI changed the second sentence.",
    "tildes": "~~~~\n{}\n~~~~",
    "a bare fence": "The new version:\n\n````\n{}\n````",
    "the tag of the request": "<text>\n{}\n</text>",
    "a label": "**Revised text:**\n\n{}",
    "a tag with an attribute": '<new lang="en">\n{}\n</new>',
    "tags with blanks": "< new >\n{}\n</ new >",
    "tags as entities": "&lt;new&gt;\n{}\n&lt;/new&gt;",
    "bold tags": "**<new>**\n{}\n**</new>**",
    "a thought before": "<think>\n<new>\nA draft.\n</new>\n</think>\n<new>\n{}\n</new>",
    "a closing tag only": "{}\n</new>",
    "a picture before the words": "✅ Done! Here's the revised text:\n\n{}",
    "marks around the words": "{}\n\n---\n**Explanation:** fewer words.",
    "another tag": "<document>\n{}\n</document>",
    "in German": "Gerne! Hier ist der überarbeitete Text:\n\n{}\n\nIch habe nur die Rechtschreibung korrigiert.",
}
NO_TEXT = [
    "I don't see the document. Please paste it here.",
    "I'm sorry, but I can't help with that.",
    "There is nothing to change: the text has no errors.",
    "The paragraph is already as short as it can be.",
    "Could you tell me which sentence you mean?",
    "Es gibt nichts zu ändern.",
    "--- a/trees.md\n+++ b/trees.md\n@@ -1 +1 @@\n-The tre is green.\n+The tree is green.",
    "```diff\n-The tre is green.\n+The tree is green.\n```",
    "-The tre is green.\n+The tree is green.",
    "**Option 1**\n\nThe tree is green.\n\n**Option 2**\n\nTrees are green.",
    "Here are two versions.\n\n### Version A\n\nThe tree is green.\n\n### Version B\n\nGreen is the tree.",
    "There's nothing attached. Please share the paragraph.",
    "No text was provided to edit.",
    "N/A",
    "As written, the paragraph is fine.",
    "LGTM",
    "<new>\n<none>\n</new>",
    "<<<<<<< SEARCH\nThe tre is green.\n=======\nThe tree is green.\n>>>>>>> REPLACE",
    "Here are two versions:\n\n**A.** The tree is green.\n\n**B.** Trees are green.",
    "The tre is green.",
    "<new>\nThe tre is green.\n</new>\nThere was nothing to change.",
]  # fmt: skip


OTHER_WORDS = [
    "Fixed:\n\n{}", "The corrected text is:\n\n{}", "My suggestion:\n\n{}", "BEGIN\n{}\nEND", "[new]\n{}\n[/new]",
    "--- new ---\n{}\n--- end ---", "***\n\n{}\n\n***", "<corrected>\n{}\n</corrected>", "<answer>{}</answer>",
    "```plain\n{}\n```", "> Here is the text\n\n{}", "Thought: fix it\nFinal Answer: {}", "**Thinking:** typos.\n\n{}",
    "No problem!\n\n{}", "Texto corregido:\n\n{}", "Korrigierter Text:\n\n{}", "Assistant: {}", "Text:\n{}",
    "{}\n\n(4 typos corrected)", "{}\n\nFixed: tre → tree.", "{}\n\nThat should do it!",
    "{}\n\n### Changes\n\n- spelling",
    "{}\n\n<!-- fixed the typos -->", "{}\n\n---\nFixed four typos.",
    "{}\n\nCorrections:\n- tre → tree\n- leafs → leaves",
    "<new>\nHere is the revised text:\n\n{}\n</new>", "<new>\n{}\n\nLet me know if you need more!\n</new>",
    "<new>\n{}\n\n**Changes made:** spelling.\n</new>", "<new>\n<text>\n{}\n</text>\n</new>", '<new>\n"{}"\n</new>',
    "> <new>\n{}\n> </new>", "\\<new\\>\n{}\n\\</new\\>", "[NEW]\n{}\n[/NEW]", "{{new}}\n{}\n{{/new}}", "<s>{}</s>",
    "<|channel|>analysis<|message|>Edit.<|end|><|channel|>final<|message|>\n<new>\n{}\n</new>", "{}<|im_end|>",
    "Fix it.\n</think>\n{}",
    "[/INST] {}", "Updated:\n\n{}", "Answer: {}", "New version - {}", "→ {}", "Try this:\n\n{}",
    "### Revised text\n\n{}", "✨ **Polished** ✨\n\n{}", "{}\n\n* * *\n\nChanges: spelling.", 
    "{}\n\n*Edited for clarity.*",
    "{}\n\nWant it tighter still?", "{}\n\nConfidence: high", "{}\n\n[END]", "{}\n\nFammi sapere se va bene.",
    "Вот исправленный текст:\n\n{}", "以下是修改后的文本：\n\n{}", "Hier is de herziene tekst:\n\n{}",
    '{{"new_text": "{}"}}', '```json\n{{"text": "{}"}}\n```', "**Before:** The tre is.\n\n**After:** {}",
    "Original:\n> The tre is.\n\nRevised:\n{}",
    ':::writing{{variant="document"}}\n{}\n:::',
    "\\begin{{document}}\n{}\n\\end{{document}}",
]  # fmt: skip
TEXTS = {
    "fix it": (
        "The tre is green, and it has leafs.\n\nIt grow in the wood for many year.",
        "The tree is green, and it has leaves.\n\nIt grows in the wood for many years.",
    ),
    "in German": ("The tree is green. It has leaves.", "Der Baum ist grün. Er hat Blätter."),
    "write two sentences": ("", "The tree is tall and green. It grows in the wood for many years."),
}  # fmt: skip


class Case(NamedTuple):
    """One edit: what is said of it, its request, the old text, the reply, and the text in the document."""

    verdict: str
    prompt: str
    old: str
    reply: str
    new: str


def read_cases() -> list[Case]:
    """The edits of the fixture."""
    found = []
    for part in CASES.read_text().split("\n=== ")[1:]:
        verdict, prompt, rest = part.split("\n", 2)
        old, _, new = rest.removeprefix("---\n").partition("\n=>\n")
        reply, _, restored = new.rstrip("\n").partition("\nrestored:\n")
        found.append(Case(verdict, prompt, old, reply, restored or reply))
    return found


EDITS = read_cases()


def answered(case: Case, reply: str) -> Document:
    """The document with the reply."""
    document = talking.answered(DOCUMENT.format(case.prompt, case.old), model=ScriptedModel([reply]), again=True)
    assert document.failures == ()
    return document


@pytest.mark.parametrize("number", range(len(WRAPPERS)), ids=list(WRAPPERS))
def test_only_the_text_is_taken(number: int) -> None:
    """Whatever stands around it; what is lost is named, and what was asked for is no loss."""
    wrapper, found = [*WRAPPERS.values()][number], list[str]()
    for case in EDITS if number == 0 else EDITS[number % 4 :: 4]:
        document = answered(case, wrapper.format(case.reply))
        assert document.edits[0].new.strip() == case.new, case
        if case.verdict == "ok":
            document.accept()
            assert f"## Trees\n\n{case.new}\n\n## Rocks" in document.text
        else:
            with pytest.raises(EditError) as refused:
                document.accept()
            found += [case.prompt] if case.verdict not in str(refused.value) else []
    assert found == []


@pytest.mark.parametrize("prompt", TEXTS)
def test_what_no_rule_takes_off_is_named(prompt: str) -> None:
    """A line at the edge that has none of the old words, while the others have them, may be a remark; in a translation,
    and in a text where there was none, what is short and has none of the others' words."""
    (old, new), taken = TEXTS[prompt], list[str]()
    for wrapper in OTHER_WORDS:
        with suppress(NoEdit):
            found = new_text(wrapper.format(new), EditRequest(old, prompt))
            if found.text.strip() != new and not any("may be a remark" in doubt for doubt in found.doubts):
                taken.append(wrapper)
    assert taken == []


def test_a_text_in_the_first_person() -> None:
    """Its paragraphs are no remarks of the model's."""
    old, new = "I like trees.\n\nI have saw many.", "I like trees.\n\nI have seen many of them."
    found = new_text(f"Sure, here it is:\n\n{new}\n\nLet me know what you think.", EditRequest(old, "fix it"))
    assert (found.text, found.doubts) == (new, ())


def test_there_are_sixty_edits() -> None:
    """Of all kinds, a third of them good."""
    assert len(EDITS) >= 60
    assert sum(case.verdict == "ok" for case in EDITS) >= 20


@pytest.mark.parametrize(
    "reply",
    [
        "Sure! The tree is green.",
        "<new>\n```\nThe tree is green.\n```\n</new>",
        "``The tree is green.''",
        "`The tree is green.`",
        "The tree is green.\n\n(Shortened by one letter.)",
        "The tree is green.\n\n*Changes: one letter.*",
    ],
)
def test_the_text_of_a_sentence_is_taken(reply: str) -> None:
    """Also from habits around one sentence."""
    text = DOCUMENT.format("fix the typos", "The tre is green.")
    assert talking.answered(text, model=ScriptedModel([reply]), again=True).edits[0].new.strip() == "The tree is green."


@pytest.mark.parametrize(
    "reply",
    ['Replace "tre" with "tree".', "Change the second word to tree.", '<tool_call>{"name": "edit"}</tool_call>'],
)
def test_what_may_be_no_text_is_not_accepted(reply: str) -> None:
    """Unless the author forces it."""
    document = talking.answered(
        DOCUMENT.format("fix the typos", "The tre is."), model=ScriptedModel([reply]), again=True
    )
    with pytest.raises(EditError, match="may be a remark"):
        document.accept()


@pytest.mark.parametrize("new", ["None of the trees is green.", "Changes in light turn trees green.", "I am green."])
def test_a_text_that_begins_like_a_remark(new: str) -> None:
    """It is text between the tags."""
    text = DOCUMENT.format("be poetic", "The tree is green.")
    document = talking.answered(text, model=ScriptedModel([f"<new>\n{new}\n</new>"]), again=True)
    assert document.edits[0].new.strip() == new


@pytest.mark.parametrize("reply", NO_TEXT)
def test_what_is_no_text_is_no_edit(reply: str) -> None:
    """A refusal, a diff, several versions, the same text: the prompt stays, and the model's words are shown."""
    text = DOCUMENT.format("fix the typos", "The tre is green.")
    outcome = talking.answered(text, model=ScriptedModel([reply]), again=True)
    assert [type(failure.error) for failure in outcome.failures] == [NoEdit]
    assert outcome.text == text


def test_the_remark_is_shown_and_goes_with_the_edit() -> None:
    """It stands in the block, written as replies are; accept and reject remove it."""
    text = DOCUMENT.format("fix the typos", "The tre is green.")
    remark = "I kept `r nrow(x)`.\n\n```{r}\nn\n```\n---\nShall I go on?"
    model = ScriptedModel([f"<new>\nThe tree is green.\n</new>\n{remark}"])
    document = talking.answered(text, model=model, again=True)
    [edit] = document.edits
    assert edit.remark == remark
    assert "~remark: " in document.text
    assert "Shall I go on" not in talking.accepted(document.text)
    assert talking.rejected(document.text) == text.replace("---\n=: fix the typos\n---\n", "")


def test_several_new_texts_and_an_open_tag_are_doubtful() -> None:
    """The first is taken; accept names the doubt."""
    for reply, doubt in (
        ("<new>\nOne.\n</new>\nor\n<new>\nTwo.\n</new>", "several new texts"),
        ("<new>\nOne.", "no closing tag"),
        ("One.\n\nPerhaps you should cite somebody.", "may be a remark"),
    ):
        document = talking.answered(
            DOCUMENT.format("fix the typos", "The tre is green."), model=ScriptedModel([reply]), again=True
        )
        assert document.edits[0].new.startswith("One.")
        with pytest.raises(EditError, match=doubt):
            document.accept()
        document.accept(force=True)
        assert "One." in document.text


def test_a_text_with_the_tag_gets_another() -> None:
    """Else the model's text would end where the author's tag stands."""
    model = ScriptedModel(["<new2>\nClose it with `</new>`.\n</new2>"])
    document = talking.answered(DOCUMENT.format("fix it", "Closs it with `</new>`."), model=model, again=True)
    assert "between <new2> and </new2>" in str(model.seen[0].messages[1].text)
    assert document.edits[0].new.strip() == "Close it with `</new>`."


def test_an_empty_reply_is_still_empty() -> None:
    """Tags around nothing are no text."""
    model = ScriptedModel(["<new>\n</new>"] * 2)
    outcome = talking.answered(DOCUMENT.format("x", "Oaks."), model=model, again=True)
    assert [type(failure.error) for failure in outcome.failures] == [EmptyReply]
