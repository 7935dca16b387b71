"""What a model may answer that Pandoc, knitr or Quarto would act on if they saw it.

Every reply contains the word SECRET, which must not reach a rendered document. Code in it writes a file
``ran-…`` into the folder it is knitted in.
"""

from __future__ import annotations

from dataclasses import dataclass

TOKEN = "SECRET"


@dataclass(frozen=True)
class Reply:
    """One reply; `runs` says which of knitr's entrances runs code that stands in YAML like this.

    ``file``: `knit("x.Rmd")`. ``text``: `knit(text = …)`, which guesses the format from the content, so
    that LaTeX and HTML ways of embedding R count. Empty: none. Each claim is checked with the real knitr.
    """

    name: str
    text: str
    runs: str = ""


def _r(name: str) -> str:
    return f'cat("{TOKEN}", file = "ran-{name}")'


def _chunks() -> list[Reply]:
    """Every spelling of a chunk that knitr knows, and spellings that it does not run."""
    forms = [
        ("chunk", "```{{r}}\n{code}\n```", "file"),
        ("chunk-options", "Text SECRET\n\n```{{r answer, echo=FALSE}}\n{code}\n```\n", "file"),
        ("chunk-taken-label", "```{{r setup}}\n{code}\n```", "file"),
        ("chunk-spaces", "```  {{r  ,eval=TRUE}}  \n{code}\n```", "file"),
        ("chunk-comma", "```{{r,echo=FALSE}}\n{code}\n```", "file"),
        ("chunk-indented", "1. Do this:\n\n    ```{{r}}\n    {code}\n    ```", "file"),
        ("chunk-tab", "Do this:\n\t```{{r}}\n\t{code}\n\t```", "file"),
        ("chunk-quoted", "> ```{{r}}\n> {code}\n> ```", "file"),
        ("chunk-long", "````{{r}}\n{code}\n````", "file"),
        ("chunk-unclosed", "Look:\n```{{r}}\n{code}", "file"),
        ("chunk-pipe", "```{{r}}\n#| label: x\n{code}\n```", "file"),
        ("chunk-crlf", "Look:\r\n```{{r}}\r\n{code}\r\n```", "file"),
        ("chunk-em-space", "```\u2003{{r}}\n{code}\n```", "file"),
        ("chunk-tilde", "~~~{{r}}\n{code}\n~~~", ""),
        ("chunk-class", "```{{.r}}\n{code}\n```", ""),
        ("chunk-double", "```{{{{r}}}}\n{code}\n```", ""),
        ("chunk-in-item", "- ```{{r}}\n  {code}\n  ```", ""),
        ("fence", "```r\n{code}\n```", ""),
    ]
    return [Reply(name, f"{TOKEN}\n" + form.format(code=_r(name)), runs) for name, form, runs in forms]


def _inline() -> list[Reply]:
    forms = [
        ("inline", "The sum is `r {code}`.", "file"),
        ("inline-start", "`r {code}` is the sum.", "file"),
        ("inline-comment", "The sum is `r#note\n{code}`.", "file"),
        ("inline-lines", "The sum is `r {{\n{code}\n}}`.", "file"),
        ("inline-double", "Write ``r {code}`` for it.", "file"),
        ("inline-fence-title", "```r title\n{code}\n```", "file"),
        ("inline-newline", "The sum is `r\n{code}`.", ""),
        ("inline-letter", "The correlation `r` of `x` and `y`: {code}", ""),
        ("inline-quarto", "The sum is `{{r}} {code}`.", ""),
        ("inline-python", 'The sum is `{{python}} open("ran-inline-python", "w")`.', ""),
    ]
    return [Reply(name, f"{TOKEN}: " + form.format(code=_r(name)), runs) for name, form, runs in forms]


def _other_formats() -> list[Reply]:
    """R in LaTeX, HTML and brew: run where knitr is given a text and has to guess its format."""
    forms = [
        ("sweave", "<<>>=\n{code}\n@\n", "text"),
        ("sweave-options", "  <<label, echo=FALSE>>=\n{code}\n@", "text"),
        ("sexpr", "Write \\Sexpr{{{code}}} there.", "text"),
        ("brew", "Write <%= {code} %> there.", "text"),
        ("rinline", "Write \\rinline{{{code}}} there.", "text"),
        ("html-inline", "Write <!--rinline {code} --> there.", "text"),
        ("html-chunk", "<!--begin.rcode\n{code}\nend.rcode-->", "text"),
        ("tex-chunk", "%% begin.rcode\n%{code}\n%% end.rcode", "text"),
    ]
    return [Reply(name, f"{TOKEN}\n" + form.format(code=_r(name)), runs) for name, form, runs in forms]


REPLIES = [
    *_chunks(),
    *_inline(),
    *_other_formats(),
    Reply("bash", f"{TOKEN}\n```{{bash}}\ntouch ran-bash\n```", "file"),
    Reply("python", f'{TOKEN}\n```{{python}}\nopen("ran-python", "w")\n```', "file"),
    Reply("child", f'{TOKEN}\n```{{r child="child.Rmd"}}\n```', "file"),
    Reply("knit-child", f'{TOKEN} `r knitr::knit_child("child.Rmd")`', "file"),
    Reply("include", f"{TOKEN}\n\n{{{{< include _child.qmd >}}}}\n"),
    Reply("yaml-tag", '!expr cat("SECRET", file = "ran-yaml-tag")'),
    Reply("yaml", f"title: {TOKEN}\nauthor_: [{TOKEN}\n- item: &a *b\n? key"),
    Reply("yaml-block", f"---\ntitle: {TOKEN}\n---\n\n{TOKEN}"),
    Reply("rules", f"{TOKEN}\n\n---\n\n...\n\n---\n"),
    Reply("marker", f"---\n{TOKEN}"),
    Reply("dots", f"...\n\n{TOKEN}\n..."),
    Reply("headings", f"# {TOKEN}\n\n## Sub {{#sec:intro}}\n\n###### old text"),
    Reply("setext", f"{TOKEN}\n======\n\nMore\n----\n\nText."),
    Reply("citations", f"{TOKEN} as @doe99 says [@doe99, p. 5; -@nobody] and @fig-x."),
    Reply("footnotes", f"{TOKEN}[^1] and^[inline]\n\n[^1]: redefined {TOKEN}\n\n[link]: http://example.org\n"),
    Reply("tex", f"\\newcommand{{\\vect}}[1]{{{TOKEN}}}\n\\renewcommand{{\\vect}}[1]{{{TOKEN}}}\n"),
    Reply("align", f"\\begin{{align}}\n  x &= {TOKEN}\n\\end{{align}}"),
    Reply("math", f"$$ {TOKEN}\n\n$$\n\\def\\vect#1{{{TOKEN}}}\n$$ and $x$ and a lone $$"),
    Reply("html", f"<script>{TOKEN}</script>\n\n</div>\n\n<!-- {TOKEN}\n\n:::\n"),
    Reply("raw", f"```{{=html}}\n<b>{TOKEN}</b>\n```\n\n`{TOKEN}`{{=latex}}"),
    Reply("closing-fence", f"```\n\n{TOKEN}\n\n    ```"),
    Reply("open-fence", f"````\n{TOKEN}\n```\n~~~\n\n> ```"),
    Reply("backticks", f"` `` ``` {TOKEN} `` `"),
    Reply("chunk-end", f"{TOKEN}\n```\n```\n@\nend.rcode-->"),
    Reply("blank", f"\n\n{TOKEN}\n\n\n"),
    Reply("spaces", f"   {TOKEN}\n \n\ttab\n  \t \nend  "),
    Reply("lines", f"{TOKEN}\r\nx\x85y\u2028z\u2029\x0b\x0c\x00\x07\ufeff"),
    Reply("prompts", f"?: {TOKEN}\n+: more\nquery: x\n~chat_:\n  - query: y\n    ~reply: z\n~~model: q"),
    Reply("comment", f"# {TOKEN}\n#\n#! x"),
    Reply("list", f"- {TOKEN}\n- [ ] task\n\n  continued\n\n1) one"),
    Reply("long", f"{TOKEN} " + "word " * 2000),
]
