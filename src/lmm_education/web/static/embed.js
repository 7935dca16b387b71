// The course's chat in another page, in the place of this element, or with `data-corner` behind a button in its corner:
//   <script src="https://chat.example.edu/static/embed.js" data-title="Ask the course" data-height="40rem" async></script>
// The page's site has to stand in `frame_ancestors` of [serve]. The chat is told which heading of the page is read.
{
  const own = document.currentScript, { title = "Chat", corner, height = "40rem" } = own.dataset;
  const frame = document.createElement("iframe"), place = new URL("..", own.src);
  const styled = (element, style) => Object.assign(element.style, style);
  Object.assign(frame, { src: place, title, allow: "clipboard-write", loading: corner === undefined ? "eager" : "lazy" });
  styled(frame, { width: "100%", height, border: "1px solid #8884", borderRadius: "0.5rem", background: "Canvas" });
  if (corner === undefined) own.after(frame);
  else addToCorner();

  function addToCorner() {
    const panel = document.createElement("details"), opener = document.createElement("summary");
    opener.textContent = title;
    styled(panel, { position: "fixed", bottom: "1rem", right: "1rem", width: "min(28rem, calc(100vw - 2rem))", zIndex: 9999, pointerEvents: "none" });
    styled(opener, { width: "fit-content", margin: "0.5rem 0 0 auto", padding: "0.6rem 1rem", borderRadius: "2rem", background: "#14529c", color: "#fff", font: "1rem system-ui, sans-serif", listStyle: "none", cursor: "pointer", pointerEvents: "auto" });
    styled(frame, { height: "min(40rem, calc(100vh - 6rem))", pointerEvents: "auto" });
    panel.append(opener, frame);
    const add = () => document.body.append(panel);
    if (document.body) add();
    else addEventListener("DOMContentLoaded", add);
  }

  // The id of a heading is its own, or that of the section around it, as Quarto, bookdown and Pandoc write them.
  const idOf = (heading) => heading.id || heading.dataset.anchorId || heading.closest("section[id], .section[id]")?.id;
  const isShown = (element, box = element.getBoundingClientRect()) => box.bottom > 0 && box.top < innerHeight;
  let here, told, there = false, waiting;

  // The heading that the address names, while it is to be seen, else the last one above the middle of the window.
  function reading() {
    const headings = [...document.querySelectorAll(":is(h1, h2, h3, h4, h5, h6):not(nav *)")].filter(idOf);
    const named = headings.find((each) => [idOf(each), encodeURIComponent(idOf(each))].includes(location.hash.slice(1)));
    if (named && isShown(named)) return named;
    return headings.findLast((each) => each.getBoundingClientRect().top < innerHeight / 3);
  }

  function look(why) {
    if (corner === undefined && here && why === "scroll" && isShown(frame)) return;  // that is where one comes to ask
    const heading = reading();
    here = location.pathname + (heading ? `#${encodeURIComponent(idOf(heading))}` : "");
    tell();
  }

  function tell() {
    if (there && told !== here) frame.contentWindow.postMessage({ here: told = here }, place.origin);
  }

  frame.addEventListener("load", () => { there = true; told = ""; tell(); });
  for (const event of ["DOMContentLoaded", "scroll", "hashchange", "popstate"]) {
    addEventListener(event, () => { clearTimeout(waiting); waiting = setTimeout(look, 200, event); }, { capture: true, passive: true });
  }
  look();
}
