// Converts an answer or a chat to markdown equivalent to the page: tags in it are text, and no pictures are loaded.
import { $, texts } from "./dom.js";

const TAG = /<(?=[a-z/!?])|!(?=\[)/gi;
const PIECE = /\\.|(?<!`)(`+)(?!`)[^`]*(?<!`)\1(?!`)|`+|\$[^$`]+\$|<(?=[a-z/!?])|!(?=\[)/gi;
const OPENING = /^ {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$/;
const QUOTE = /^ {0,3}> ?(?!.*\t)/;
const ITEM = /^ {0,3}(?:[-*+]|(\d{1,9})[.)]) {1,4}(?=\S)/, RULE = /^ {0,3}([-*])(?: *\1){2,} *$/;

const INSTEAD = { "<": "&lt;", "!": "&#33;" };
const inText = (text) => text.replace(TAG, (mark) => INSTEAD[mark]);
const inFormula = (text) => inText(text.replace(/<(?=[a-z/!?])/gi, "\\lt "));
const inPiece = (piece) => INSTEAD[piece] ?? (piece.startsWith("$") ? inFormula(piece) : piece);

// Escape tags and pictures, but not in code. An unpaired backtick in a line may begin code that ends anywhere in its
// paragraph: there, everything is escaped, as is the rest of the text where it is not certain what is in a list item. An
// unclosed fence is closed.
export const asText = (markdown) => escaped(markdown.split("\n")).written.join("\n");

function escaped(all) {
  let lines = new Lines(), loose = false, formula = false;
  const written = [];
  for (let at = 0; at < all.length; at++) {
    const line = all[at];
    if (!formula && QUOTE.test(line) && lines.isLeftBy(line)) {
      let end = at;
      while (all[end]?.trim()) end += 1;
      const quoted = all.slice(at, end);
      if (quoted.every((each) => QUOTE.test(each))) {  // a quote between blank lines
        const inner = escaped(quoted.map((each) => each.replace(QUOTE, "")));
        written.push(...inner.written.map((each, index) => (QUOTE.exec(quoted[index])?.[0] ?? "> ") + each));
        at = end - 1;
        lines = Object.assign(new Lines(), { uncertain: inner.uncertain });
        loose = false;
        continue;
      }
    }
    if (lines.read(line)) { loose = formula = false; written.push(line); continue; }
    if (!line.trim()) loose = false;
    if ((line.split("$$").length - 1) % 2) { formula = !formula; written.push(inFormula(line)); continue; }
    if (formula) { written.push(inFormula(line)); continue; }
    loose ||= lines.uncertain || [...line.matchAll(PIECE)].some(([piece]) => /^`+$/.test(piece));
    written.push(loose ? inText(line) : line.replace(PIECE, inPiece));
  }
  if (lines.fence) written.push(" ".repeat(lines.fence.indent) + lines.fence.mark);
  return { written, uncertain: lines.uncertain };
}

// The list items and the fence that the lines of a text are in. `uncertain` is set for good where renderers may differ.
class Lines {
  items = [];  // the columns where their texts begin
  fence = null;
  lazy = false;
  uncertain = false;
  blank = true;  // the line before

  // Whether a line with text, after a blank line, begins outside of list items and fences.
  isLeftBy(line) {
    const indent = line.search(/[^ ]|$/);
    return this.blank && !this.uncertain && !this.fence && this.items.every((column) => column > indent);
  }

  // Take the next line; return whether it is code, or opens or closes a fence.
  read(line) {
    const indent = line.search(/[^ ]|$/), blank = !line.trim(), before = this.blank;
    this.blank = blank;
    if (this.fence && !blank && indent < this.fence.indent) this.fence = null;  // its item ends
    if (this.fence) {
      const { mark } = this.fence, rest = line.slice(this.fence.indent);
      if (/^ {0,3}\S/.test(rest) && rest.trim().startsWith(mark) && !rest.trim().replaceAll(mark[0], "")) { this.fence = null; this.blank = true; }
      return true;
    }
    if (blank || this.uncertain) return false;
    const left = this.items.filter((column) => column > indent).length;
    this.items.length -= left;
    if (before && !indent) this.lazy = false;
    let rest = line.slice(this.items.at(-1) ?? 0), found, inItem = false;
    while (!RULE.test(rest) && (found = ITEM.exec(rest))) {
      if (!before && !inItem && found[1] && Number(found[1]) !== 1 && !left && !this.items.length) {
        this.lazy = true;  // cannot begin a list if the line before is a paragraph
        break;
      }
      this.items.push((this.items.at(-1) ?? 0) + found[0].length);
      rest = rest.slice(found[0].length);
      inItem = true;
    }
    // A line of the item's paragraph, perhaps; or an item that begins in the next line.
    if ((left && !before && !inItem) || /^ {0,3}(?:[-*+]|\d{1,9}[.)]) *$/.test(rest)) this.lazy = true;
    this.uncertain = /^\s*(?:[-*+>]|\d{1,9}[.)])?\s*\t/.test(line);
    const mark = OPENING.exec(rest);
    if (!mark || this.uncertain) return false;
    if (this.lazy && indent) { this.uncertain = true; return false; }
    this.fence = { mark: mark[1] ?? mark[2], indent: this.items.at(-1) ?? 0 };
    return true;
  }
}

export function answerAsMarkdown({ text, sources, broken }) {
  const list = sources.map(({ number, name }) => `- [${number}] ${asText(name)}`);
  return [asText(text), ...(broken ? [`*${broken}*`] : []), ...(list.length ? [`**${texts.sources}**`, list.join("\n")] : [])].join("\n\n");
}

export function chatAsMarkdown({ exchanges }) {
  const parts = exchanges.flatMap(({ versions, shown }) => {
    const { asked, values } = versions[shown];
    const question = asText(asked).split("\n").map((line) => `> ${line}`).join("\n");
    return [question, answerAsMarkdown(values), ...values.notices.map((notice) => `*${asText(notice)}*`)];
  });
  return [`# ${asText($("h1").textContent)}`, ...parts].join("\n\n") + "\n";
}
