import { make, say, texts } from "./dom.js";

const LATE = 10_000;  // milliseconds without an event

// What is done in a view with an answer that arrives: the element `done`, `tail` for what is no whole block yet, a `note`.
export const ARRIVING = {
  waiting({ note }, { message }) { note.textContent = message; },
  found({ note }) { note.textContent = texts.thinking; },
  text({ note, tail }, { text }) { note.textContent = ""; tail.append(text); },
  mark({ tail }, { mark }) { tail.append(make("span", { class: "unverified", role: "note" }, mark)); },
  block({ note, done, tail }, { html, rest }) {
    note.textContent = "";
    done.insertAdjacentHTML("beforeend", html);
    tail.textContent = rest;
  },
  restart({ note, done, tail }, { message }) {
    done.textContent = tail.textContent = "";
    note.textContent = message;
  },
};

// The events of a stream that the server sends: pairs of a name and values. While none comes for long, the `note` of the
// view says so, unless it says how many questions are before this one.
export async function* serverSent(stream, { note }) {
  let text = "", last = "";
  const wait = () => { if (last !== "waiting") say(note.textContent = texts.still_waiting); };
  for (const reader = stream.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const late = setTimeout(wait, LATE);
    const { value, done } = await reader.read().finally(() => clearTimeout(late));
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event) ?? [];
      if (name) yield [last = name, JSON.parse(data)];
    }
  }
}
