// Chats in the browser: in this tab, or where the student wants it, until he deletes them. One entry for each, so that two
// tabs do not overwrite each other's.
const COURSE = new URL(".", location).pathname;  // one course of several on a server
const PLACE = `lmm-chat ${COURSE} ${document.body.dataset.reader} `, OPEN = `lmm-open ${COURSE}`, KEEPS = `lmm-keeps ${COURSE}`;

// What a storage does, or what stands for it where the browser has none for us.
function attempt(does, otherwise) {
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

// The latest first.
export const chats = () => attempt(() => keysOf(place()), []).map((key) => written(place(), key)).filter(Boolean)
  .sort((one, other) => other.at - one.at);

export const chat = (id) => attempt(() => written(place(), PLACE + id), null);

// What is wrong: "full", "off", or nothing. A chat that another tab has gone on with becomes a chat of its own.
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

// Whoever logs out leaves nothing.
export const clear = () => { for (const { id } of chats()) remove(id); open(""); };

// Which chat this tab shows after a reload.
export const open = (id) => attempt(() => (id ? sessionStorage.setItem(OPEN, id) : sessionStorage.removeItem(OPEN)));
export const opened = () => chat(attempt(() => sessionStorage.getItem(OPEN), ""));

// Keep chats when the tab is closed, or do not; those that there are move. Whether that could be done.
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
