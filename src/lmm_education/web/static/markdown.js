// Converts an answer or a chat to markdown equivalent to the page: tags in it are text, and no pictures are loaded.
import { $, texts } from "./dom.js";

const TAG = /<(?=[a-z/!?])|!(?=\[)/gi;
const PIECE = /\\.|(?<!`)(`+)(?!`)[^`]*(?<!`)\1(?!`)|`+|\$[^$`]+\$|<(?=[a-z/!?])|!(?=\[)/gi;
const FENCE = /^ {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$/;

const INSTEAD = { "<": "&lt;", "!": "&#33;" };
const inText = (text) => text.replace(TAG, (mark) => INSTEAD[mark]);
const inFormula = (text) => inText(text.replace(/<(?=[a-z/!?])/gi, "\\lt "));
const inPiece = (piece) => INSTEAD[piece] ?? (piece.startsWith("$") ? inFormula(piece) : piece);

// Escape tags and pictures, but not in code. An unpaired backtick in a line may begin code that ends anywhere in its
// paragraph: there, everything is escaped. An unclosed fence is closed.
export function asText(markdown) {
  let fence = "", loose = false, formula = false;
  const lines = markdown.split("\n").map((line) => {
    const mark = FENCE.exec(line);
    if (fence) {
      if (mark && line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "")) fence = "";
      return line;
    }
    if (mark) { fence = mark[1] ?? mark[2]; loose = formula = false; return line; }
    if (!line.trim()) loose = false;
    if ((line.split("$$").length - 1) % 2) { formula = !formula; return inFormula(line); }
    if (formula) return inFormula(line);
    loose ||= [...line.matchAll(PIECE)].some(([piece]) => /^`+$/.test(piece));
    return loose ? inText(line) : line.replace(PIECE, inPiece);
  });
  return [...lines, ...(fence ? [fence] : [])].join("\n");
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
