// Embeds the course's chat in another page, in place of this element, or, with `data-corner`, behind a corner button:
//   <script src="https://chat.example.edu/static/embed.js" data-title="Ask the course" data-height="40rem" async></script>
// The page's site must be listed in `frame_ancestors` of [serve]. The chat is informed which heading is being read.
{
  const own = document.currentScript, { title = "Chat", corner, height = "40rem" } = own.dataset;
  const place = new URL("..", own.src), inPage = corner === undefined;
  const make = (tag, style) => { const made = document.createElement(tag); Object.assign(made.style, style); return made; };
  const frame = make("iframe", { width: "100%", height, border: "1px solid #8884", borderRadius: "0.5rem", background: "Canvas" });
  Object.assign(frame, { src: place, title, allow: "clipboard-write", loading: inPage ? "eager" : "lazy" });
  if (inPage) own.after(frame);
  else {
    const panel = make("details", { position: "fixed", bottom: "1rem", right: "1rem", width: "min(28rem, calc(100vw - 2rem))", zIndex: 9999, pointerEvents: "none" });
    const opener = make("summary", { width: "fit-content", margin: "0.5rem 0 0 auto", padding: "0.6rem 1rem", borderRadius: "2rem", background: "#14529c", color: "#fff", font: "1rem system-ui, sans-serif", listStyle: "none", cursor: "pointer", pointerEvents: "auto" });
    opener.textContent = title;
    Object.assign(frame.style, { height: "min(40rem, calc(100vh - 6rem))", pointerEvents: "auto" });
    panel.append(opener, frame);
    const add = () => document.body.append(panel);
    if (document.body) add();
    else addEventListener("DOMContentLoaded", add);
  }

  // The id of a heading, or of the section around it, as written by Quarto, bookdown and Pandoc.
  const idOf = (heading) => heading.id || heading.dataset.anchorId || heading.closest("section[id], .section[id]")?.id;
  const isShown = (element, box = element.getBoundingClientRect()) => box.bottom > 0 && box.top < innerHeight;
  const tell = () => { if (loaded && told !== here) frame.contentWindow.postMessage({ here: told = here }, place.origin); };
  let here, told, loaded = false, waiting;

  // The heading being read is the one in the address, while it is visible, else the last one that has reached the upper
  // third of the window. While a chat in the page is visible, scrolling does not count: students come there to ask.
  function look(why) {
    if (inPage && here && why === "scroll" && isShown(frame)) return;
    const headings = [...document.querySelectorAll(":is(h1, h2, h3, h4, h5, h6):not(nav *)")].filter(idOf);
    const named = headings.find((each) => [idOf(each), encodeURIComponent(idOf(each))].includes(location.hash.slice(1)));
    const heading = named && isShown(named) ? named : headings.findLast((each) => each.getBoundingClientRect().top < innerHeight / 3);
    here = location.pathname + (heading ? `#${encodeURIComponent(idOf(heading))}` : "");
    tell();
  }

  frame.addEventListener("load", () => { loaded = true; told = ""; tell(); });
  for (const event of ["DOMContentLoaded", "scroll", "hashchange", "popstate"]) {
    addEventListener(event, () => { clearTimeout(waiting); waiting = setTimeout(look, 200, event); }, { capture: true, passive: true });
  }
  look();
}
