import { say, texts } from "./dom.js";

const LATE = 10_000;  // milliseconds without an event

// Handlers of events for the view of an arriving answer: `done` has complete blocks, `tail` the rest, `note` a message.
export const ARRIVING = {
  waiting({ note }, { message }) { note.textContent = message; },
  found({ note }) { note.textContent = texts.thinking; },
  text({ note, tail }, { text }) { note.textContent = ""; tail.append(text); },
  block({ done, tail }, { html, rest }) {
    done.insertAdjacentHTML("beforeend", html);
    tail.textContent = rest;
  },
  restart({ note, done, tail }, { message }) {
    done.textContent = tail.textContent = "";
    note.textContent = message;
  },
};

// Iterate over the server-sent events of a stream: pairs of a name and values. If none arrives for long, the `note` of
// the view says so, unless it shows the position in the queue.
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
