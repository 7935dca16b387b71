import { texts } from "./dom.js";

// What is done in a view with an answer that arrives: the element `done`, `tail` for what is no whole block yet, a `note`.
export const ARRIVING = {
  waiting({ note }, { message }) { note.textContent = message; },
  found({ note }) { note.textContent = texts.thinking; },
  text({ note, tail }, { text }) { note.textContent = ""; tail.textContent += text; },
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

// The events of a stream that the server sends: pairs of a name and values.
export async function* serverSent(stream) {
  let text = "";
  for (const reader = stream.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}
