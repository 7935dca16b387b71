// Chats stored in the browser: for this tab, or, if the student wishes, until they are deleted. Each has its own entry,
// so that two tabs do not overwrite each other's.
export const COURSE = new URL(".", location).pathname;  // a server may have several courses
const PLACE = `lmm-chat ${COURSE} ${document.body.dataset.reader} `, OPEN = `lmm-open ${COURSE}`, KEEPS = `lmm-keeps ${COURSE}`;

// Access a storage, or return `otherwise` if the browser does not allow it.
export function attempt(does, otherwise) {
  try {
    return does();
  } catch {
    return otherwise;
  }
}

export const keeps = () => attempt(() => localStorage.getItem(KEEPS) === "yes", false);
const place = () => (keeps() ? localStorage : sessionStorage);
const keysOf = (storage) => Object.keys(storage).filter((key) => key.startsWith(PLACE));
const written = (storage, key) => attempt(() => JSON.parse(storage.getItem(key)), null);

// All chats, the latest first.
export const chats = () => attempt(() => keysOf(place()), []).map((key) => written(place(), key)).filter(Boolean)
  .sort((one, other) => other.at - one.at);

export const chat = (id) => attempt(() => written(place(), PLACE + id), null);

// Save a chat; return "full" or "off" if it failed. If another tab has continued it, it is saved as a separate chat.
export function save(chat, fresh) {
  const there = attempt(() => written(place(), PLACE + chat.id), null);
  if (there && there.mark !== chat.mark) chat.id = fresh();
  chat.mark = fresh();
  chat.at = Date.now();
  return attempt(() => { write(place(), chat); open(chat.id); return ""; }, attempt(() => sessionStorage && "full", "off"));
}

const write = (storage, chat) => storage.setItem(PLACE + chat.id, JSON.stringify(chat));

export const put = (chat) => attempt(() => write(place(), chat));

export const remove = (id) => attempt(() => place().removeItem(PLACE + id));

// Delete all chats, when the student logs out.
export const clear = () => { for (const { id } of chats()) remove(id); open(""); };

// Remember the chat that this tab shows after a reload.
export const open = (id) => attempt(() => (id ? sessionStorage.setItem(OPEN, id) : sessionStorage.removeItem(OPEN)));
export const opened = () => chat(attempt(() => sessionStorage.getItem(OPEN), ""));

// Choose whether chats are kept when the tab is closed, and move existing ones; return whether it succeeded.
export function keep(wanted) {
  const all = chats(), from = place();
  return attempt(() => {
    const to = wanted ? localStorage : sessionStorage;
    for (const chat of all) write(to, chat);
    localStorage.setItem(KEEPS, wanted ? "yes" : "no");
    for (const chat of all) from.removeItem(PLACE + chat.id);
    return true;
  }, false);
}
