"""What is a solution, in whatever form: ingestion, students, exercises, exports, cards and annotations say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.markdown.tree import HeadingNode, load_text, preorder
from lmm.notebook.annotations import solutions_in
from lmm.notebook.generated_fields import text_of
from lmm_education.audience import EVERYONE
from lmm_education.config import Preparation
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.study.cards import write_cards
from lmm_education.study.exercises import find_exercises
from lmm_education.study.notes import clean_notes
from lmm_education.study.study_documents import study_document

TAUGHT = "A sample is a part of the population, and its mean is near that of the population if it is large enough. " * 3
SECTION = "## Exercises\n\n"
TYPED = "## Practice\n\n---\ntype: exercise\n---\nIs a census one?\n\n"
DIV = "::: {#exr-a}\nIs a census one?\n:::\n\n"
Q1, Q2 = "1. Is a census one?\n", "2. How large is it?\n"
S1, S2 = "No zebra.", "Twenty zebras."
FORMS = {
    # headings
    **{title: f"{SECTION}Is a census one?\n\n### {title}\n\n{S1}\n\nNor is that one, zebra.\n" for title in (
        "Solution", "Solutions:", "1.2 Lösung", "Corrigés", "Solución", "Oplossing", "Rozwiązanie", "Lösning", "解答",
        "Solution to Exercise 3", "Solution of Exercise 2.1", "Lösung zu Aufgabe 3", "Solution de l'exercice 3",
        "Exercise 3: Solution", "Exercise 3 (solution)", "Aufgabe 3 – Lösung", "Solutions to the exercises",
        "Worked solution", "Solution 3: the zebra", "Answer key", "Answers", "Answer to question 3", "**Solution**",
        "Answer to 1", "Solution sketch", "Lösungsweg", "Lösungsvorschlag", "Model answer", "Réponses",
        "Решение", "Çözüm", "الحل", "풀이", "Lời giải", "Correction", "Key", "Answers (odd-numbered)",
        "Hints and solutions",
        "Homework 1 Solutions", "Lösungen zu Blatt 3", "Solutions to selected problems", "Solutions manual",
        "✅ Solution",
    )},
    "heading of the first level": f"{SECTION}Is a census one?\n\n# Solutions to Exercises\n\n{S1}\n\n# Zebras\n",
    "setext": f"{SECTION}Is a census one?\n\nSolution\n--------\n\n{S1}\n",
    # metadata
    "type": f"{TYPED}---\ntype: solution\n---\n{S1}\n\nNor is that, zebra.\n",
    "type below a heading": f"{TYPED}## Key\n\n---\ntype: solution\n---\n\n{S1}\n\n### Deeper\n\nzebra\n",
    "nearly the type": f"{TYPED}---\ntype: Solutions\n---\n{S1}\n",
    **{kind: f"{TYPED}---\ntype: {kind}\n---\n{S1}\n" for kind in (
        "loesung", "Lösung", "musterloesung", "answers", "sol", "exam-solution",
    )},
    "nearly the key": f"{TYPED}---\nType: solution\n---\n{S1}\n",
    # divs and chunks
    "div": f"{DIV}::: {{.solution}}\n\n{S1}\n\nzebra\n\n:::\n",
    "a text, an exercise in a div, and a text": f"{TYPED}---\ntype: solution\n---\n{S1}\n\nzebra\n\n"
    "::: {.exercise}\nWhy?\n\n"
    f"::: {{.solution}}\nzebra\n:::\n:::\n\nThe next section begins.\n",
    **{opens: f"{TYPED}{opens}\n{S1}\n\nzebra\n{closes}\n" for opens, closes in (
        ('<div class="solution">\n', "\n</div>"), ("::: {.answer}", ":::"), ("::: {.loesung}", ":::"),
        ("\\begin{solution}", "\\end{solution}"), ("::: Lösung", ":::"),
    )},
    **{f"{opens} in a paragraph": f"{SECTION}Is a census one?\n{opens}\n{S1}{closes}\n" for opens, closes in (
        ('<div class="solution">', "\n\nzebra\n\n</div>"), ("\\begin{solution}", "\n\nzebra\n\\end{solution}"),
        ("::: {.answer}", "\n:::"),
        ("\\begin{solution*}", "\n\\begin{align}\n1\n\\end{align}\nzebra\n\\end{solution*}\nThe next section."),
    )},
    "Quarto's label": f"{DIV}::: {{#sol-a}}\n{S1}\n:::\n",
    "a chunk": f"{SECTION}Is a census one?\n\n```{{r f, exercise=TRUE}}\n1\n```\n\n```{{r f-solution}}\nzebra\n```\n",
    # labels
    "a label": f"{SECTION}**Exercise 1.1.** Is a census one?\n\n**Solution.** {S1}\n\nNor a zebra.\n\n"
    f"**Exercise 1.2.** How large is it?\n\n**Lösung 5.1.** {S2}\n",
    "a small letter after a label": f"{DIV}**Solution.** no zebra.\n",
    "MyST's directive between colons": f"{DIV}:::{{solution}} ex1\n{S1}\n:::\n",
    "MyST's gates": f"{DIV}```{{solution-start}} ex1\n```\n\n{S1}\n\nzebra\n\n```{{solution-end}}\n```\n",
    "a gate that never closes": f"{SECTION}Is a census one?\n\n:::{{solution-start}} ex1\n:::\n\n{S1}\n\nzebra\n",
    "a label after a div": f"{DIV}*Answer:* {S1}\n",
    "a label without emphasis": f"{SECTION}Exercise 6.1. Is a census one?\n\nSolution 6.1. {S1}\n",
    "a plain label": f"{TYPED}Solution: {S1}\n\nNor a zebra.\n",
    "a label to an exercise": f"{SECTION}Is a census one?\n\n**Solution to Exercise 1.** {S1}\n",
    "a label in a list": f"{SECTION}{Q1}\n   **Solution.** {S1}\n\n{Q2}",
    "a label below a list": f"{SECTION}{Q1}\n**Solution.** {S1}\n\n1. Zebra.\n\n{Q2}",
    "a label in a tight list": f"{SECTION}{Q1}   **Solution.** {S1}\n{Q2}   *Answer:* {S2}\n",
    "a label in a line": f"{SECTION}**Exercise 1.** Is a census one? **Solution.** {S1}\n",
    "a label on the next line": f"**Exercise 1.** Is a census one?\n**Solution.** {S1}\n",
    "a plain label on the next line": f"{SECTION}Is a census one?\nSolution: {S1}\n",
    **{label: f"{TYPED}{label} {S1}\n\n{'> ' * label.startswith('>')}Nor a zebra.\n" for label in (
        "> **Solution.**", "> *Solution.*", "**Solution**", "***Solution:***", "- **Solution:**", "**Solution** —",
        "**Solution to Exercise 1.**", "**Lösung zu Aufgabe 1.**", "**Lösungsvorschlag:**", "**Answer key:**",
        "**Correct answer:**", "**答案：**", "Réponse :", "1. *Solution.*", "**Worked solution.**",
        "Solution to Exercise 1:", "**Solution sketch.**",
        "**Rozwiązanie zadania 1.**", "**Respuesta correcta:**", "__Answer (a).__", "答案：",
        "**Loesung 1:**", "**Решение.**", "【答案】", "<strong>Solution:</strong>", "\\textbf{Solution.}",
        "**[Solution]**",
        "✅ **Solution:**", "**Solution** it is", "Solution --", "<h3>Solution</h3>", "Soln.", "- [x] Answer:",
    )},
    **{f"{between!r} in it": f"{TYPED[:-2]}{between}{S1}\n" for between in (" **Solution.** ", "\n*Answer:* ")},
    "TeX's environments": f"## A\n\n\\begin{{exercise}}\nIs a census one?\n\\end{{exercise}}\n"
    f"\\begin{{solution}}\n{S1}\n\\end{{solution}}\n",
    # without looks, and outside a section of exercises
    **{title: f"{TYPED}{title}\n\n{S1}\n\nNor is that, zebra.\n" for title in (
        "Solution ", "Solution to Exercise 4", "Lösung zu Aufgabe 3", "Antwort",
    )},
    **{f"{label} in a chapter": f"{label} Is a census one?\n\nSolution. {S1}\n\nExercise 2 shows that zebra.\n\n"
    f"Aufgabe 2 Teil a, zebra.\n\nExercise 2 says that\n\n$$zebra$$\n\n"
    f"{label.replace('1', '2')} How large is it?\n\nSolution. {S2}\n" for label in (
        "Exercise 1.", "**Exercise 1.**", "Aufgabe 1 (4 Punkte)", "Exercise 1\n\n", "**Exercise 1** (4 points)\n\n",
    )},
    "labels below a block": f"{SECTION}---\ntype: exercise\nsolution: zebra\n---\nExercise 1. Is a census one?\n\n"
    f"**Exercise 2.** How large is it?\n\n**Solution 2.** {S2}\n\n**Exercise 3.** Why?\n\n**Solution 3.** {S2}\n",
    # callouts, admonitions, details, tabs
    "a callout": f'{SECTION}Is a census one?\n\n::: {{.callout-tip title="Solution"}}\n{S1}\n\nzebra\n:::\n',
    "a callout after a div": f'{DIV}::: {{.callout-tip title="Solution"}}\n{S1}\n\nzebra\n:::\n',
    "an admonition": f'{DIV}??? success "Lösung"\n\n    {S1}\n\n    zebra\n',
    "an admonition of that kind": f"{DIV}!!! solution\n\n    {S1}\n\n    zebra\n",
    "a quote": f"{DIV}> **Solution.** {S1}\n\n> A zebra.\n",
    "an alert": f"{DIV}> [!TIP] Solution\n> {S1}\n>\n> A zebra.\n",
    "an alert of that kind": f"{DIV}> [!solution]-\n> {S1}\n",
    "Docusaurus": f"{DIV}:::tip[Solution]\n\n{S1}\n\nzebra\n\n:::\n",
    "details": f"{TYPED}<details>\n<summary>Show <b>solution</b></summary>\n\n{S1}\n\nzebra\n\n</details>\n",
    **{opens: f"{DIV}{opens}\n\n{S1}\n\nzebra\n\n{closes}\n" for opens, closes in (
        ('{{% expand "Solution" %}}', "{{% /expand %}}"), ("{{< solution >}}", "{{< /solution >}}"),
        ('{% tab title="Solution" %}', "{% endtab %}"), ('<TabItem value="s" label="Solution">', "</TabItem>"),
        ("::: details Solution {open}", ":::"), (":::{dropdown} Show the answer", ":::"), ("::: {.answer-key}", ":::"),
        ('::: {.proof name="Solution"}', ":::"), ("`r hide('Solution')`", "`r unhide()`"),
        ("/// details | Solution", "///"), ("<!-- BEGIN SOLUTION -->", "<!-- END SOLUTION -->"),
        ("\\begin{proof}[Solution]", "\\end{proof}"), (":::: {.callout-tip}\n## Show solution", "::::"),
    )},
    "a directive": f"{DIV}```{{admonition}} Solution\n:class: dropdown\n{S1}\n```\n",
    "kramdown": f"{DIV}{S1}\n{{: .solution}}\n",
    "in a paragraph": f"{SECTION}Is a census one?\n<details><summary>Solution</summary>\n- {S1}\n- zebra\n</details>\n",
    "a heading in a paragraph": f"{SECTION}Is a census one?\n### Solution\n{S1}\n\nNor is that one, zebra.\n",
    "a shortcode": f'{DIV}{{{{< details title="Solution" >}}}}\n\n{S1}\n\n{{{{< /details >}}}}\n',
}  # fmt: skip
AFTER = "\n## Weights\n\nThe next section on cases.\n"


@pytest.mark.parametrize("form", FORMS)
def test_a_solution_is_one_everywhere(tmp_path: Path, form: str) -> None:
    text = f"# Samples\n\n{TAUGHT}\n\n{FORMS[form]}{AFTER}"
    prepared = prepare_document(text, docid="d", file="a.md", settings=Preparation())
    shown = {"students": "\n".join(each.text for each in prepared.chunks if each.audience == EVERYONE)}
    exercises = find_exercises([study_document(text, file="a.md")])
    shown |= {"exercises": "\n".join(each.text for each in exercises), "export": clean_notes(text).text}
    tree = load_text(text)
    assert tree is not None
    found = solutions_in(tree)
    shown["annotations"] = "\n".join(text_of(node, found) for node in preorder(tree) if isinstance(node, HeadingNode))
    sent = list[str]()
    (tmp_path / "a.md").write_text(text)
    write_cards([tmp_path / "a.md"], model=lambda request: sent.append(request) or '{"cards": []}')  # type: ignore[func-returns-value]
    shown["cards"] = "\n".join(sent)
    assert [name for name, seen in shown.items() if "zebra" in seen] == []
    for name in ("students", "export", "annotations"):
        assert "The next section" in shown[name], name
    assert "census" in shown["students"]
    assert "zebra" in "\n".join(each.solution for each in exercises), exercises
    assert any("large" in each.text for each in exercises) == ("large is it" in text)
    assert [len(each.solution.split()) for each in exercises] == [1, 4, 4] or form != "labels below a block"
    assert prepared.withheld


@pytest.mark.parametrize(
    "text",
    [
        "## Solutions of salt\n\nThe zebra is dissolved.\n",
        "## Buffer solutions\n\nThe zebra is dissolved.\n",
        "## Solutions to common problems\n\nThe zebra is dissolved.\n",
        "## Answers to frequently asked questions\n\nThe zebra is dissolved.\n",
        f"{DIV}**Solutions** of salt conduct, zebra.\n",
        f"{DIV}The solution: a zebra.\n",
        "Salt dissolves.\n**Solution.** A mixture of zebras.\n",
        f"{DIV}**Solution of salt** conducts, zebra.\n",
        f"{DIV}- **Salt solution:** zebra\n",
        f"{DIV}> Answer me, zebra.\n",
        "## Salt solution sketch map\n\nA zebra.\n",
        f"{DIV}A census is a\nSolution\n\nwith a zebra.\n",
        f"{DIV}Exercise 3: find the general solution\n\nA zebra.\n",
        *(
            f"## {title}\n\nA zebra.\n"
            for title in ("Solution set", "Solution to the problem", "Key", "解析", "Keys and indexes")
        ),
        f"{DIV}**Answer** all questions, zebra.\n",
        f"{DIV}```sol\nzebra\n```\n",
        f"{DIV}**Buffer solution** A zebra.\n",
        "## Exercises\n\n---\ntype: text\n---\n**Solution 1.** A mixture of zebras.\n",
    ],
)
def test_what_is_no_solution(text: str) -> None:
    prepared = prepare_document(f"# A\n\n{text}", docid="d", file="a.md", settings=Preparation())
    assert "zebra" in "\n".join(each.text for each in prepared.chunks if each.audience == EVERYONE)
    tree = load_text(f"# A\n\n{text}")
    assert tree is not None
    assert solutions_in(tree) == set()
