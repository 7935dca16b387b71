// The course's chat in another page, in the place of this element:
//   <script src="https://chat.example.edu/static/embed.js" data-title="Ask the course" data-height="40rem" async></script>
// The page's site has to stand in `frame_ancestors` of [serve].
{
  const own = document.currentScript;
  const frame = document.createElement("iframe");
  frame.src = new URL("..", own.src);
  frame.title = own.dataset.title ?? "Chat";
  frame.allow = "clipboard-write";
  Object.assign(frame.style, {
    width: "100%", height: own.dataset.height ?? "40rem", border: "1px solid #8884", borderRadius: "0.5rem",
  });
  own.after(frame);
}
