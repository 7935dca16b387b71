// Reading aloud with the browser's voices, piece by piece, as some voices stop in long texts. Code is not read.
import { button, say, texts } from "./dom.js";

const speech = window.SpeechSynthesisUtterance && window.speechSynthesis;
const READ = "p, li, h1, h2, h3, h4, h5, h6, th, td, dt, dd";
let silence = () => {};  // stops reading

function piecesOf(text) {
  const copy = text.cloneNode(true);
  for (const mark of copy.querySelectorAll(".cite, pre, button, nav")) mark.remove();
  const leaves = [...copy.querySelectorAll(READ)].filter((each) => !each.querySelector(READ));
  return leaves.map((each) => each.textContent.trim()).filter(Boolean);
}

// A button that starts or stops reading; an empty string if the browser has no speech synthesis.
export function reader(text) {
  if (!speech) return "";
  return button(texts.read_aloud, (made) => {
    const reads = made.getAttribute("aria-pressed") === "true";
    silence();
    if (!reads) read(piecesOf(text), made);
  }, { class: "quiet", "aria-pressed": "false" });
}

function read(pieces, made) {
  const show = (reads) => {
    made.setAttribute("aria-pressed", String(reads));
    made.textContent = reads ? texts.stop_reading : texts.read_aloud;
  };
  silence = () => { speech.cancel(); show(false); silence = () => {}; };
  show(true);
  pieces.forEach((piece, i) => {
    const said = new SpeechSynthesisUtterance(piece);
    said.lang = document.documentElement.lang;
    if (i === pieces.length - 1) said.addEventListener("end", () => show(false));
    said.addEventListener("error", ({ error }) => {
      show(false);
      if (!["interrupted", "canceled"].includes(error)) say(texts.no_voice);
    });
    speech.speak(said);
  });
}

addEventListener("pagehide", () => silence());
