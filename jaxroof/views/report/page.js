"use strict";
// A picture is as wide as its frame; buttons, the keys + - 0 and Ctrl with the wheel make it wider,
// and dragging moves it.
for (const picture of document.querySelectorAll(".picture")) {
  const view = picture.querySelector(".view");
  const image = picture.querySelector("img");
  let zoom = 1;
  let whole = 0; // width of the picture before any zoom
  const set = (wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
    const next = Math.min(12, Math.max(1, wanted));
    if (zoom === 1) whole = image.clientWidth;
    const left = (view.scrollLeft + x) / image.clientWidth;
    const top = (view.scrollTop + y) / image.clientHeight;
    view.style.height = next > 1 ? `${Math.min(view.clientHeight, 0.9 * innerHeight)}px` : "";
    image.style.width = next > 1 ? `${whole * next}px` : "";
    view.scrollLeft = left * image.clientWidth - x;
    view.scrollTop = top * image.clientHeight - y;
    zoom = next;
  };
  const steps = { in: () => set(zoom * 1.4), out: () => set(zoom / 1.4), whole: () => set(1) };
  for (const button of picture.querySelectorAll("button")) {
    button.addEventListener("click", steps[button.dataset.zoom]);
  }
  const keys = { "+": "in", "=": "in", "-": "out", 0: "whole" };
  view.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && keys[event.key]) steps[keys[event.key]]();
  });
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const frame = view.getBoundingClientRect();
    set(zoom * Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  view.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    event.preventDefault();
    view.focus();
    view.setPointerCapture(event.pointerId);
    const move = (to) => view.scrollBy(-to.movementX, -to.movementY);
    view.addEventListener("pointermove", move);
    view.addEventListener("pointerup", () => view.removeEventListener("pointermove", move), { once: true });
  });
}
