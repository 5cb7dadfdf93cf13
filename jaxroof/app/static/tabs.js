// A strip of tabs: one is chosen by a click, or by the arrow keys.

export function render({model, el}) {
  const strip = document.createElement("div");
  strip.setAttribute("role", "tablist");
  strip.setAttribute("aria-label", "Answers");
  const tabs = model.tabs.map(([name, title]) => {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.id = "tab-" + name;
    tab.textContent = title;
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", () => choose(name));
    strip.append(tab);
    return tab;
  });
  const names = model.tabs.map(([name]) => name);

  function mark() {
    tabs.forEach((tab, place) => {
      const own = names[place] === model.chosen;
      tab.setAttribute("aria-selected", own ? "true" : "false");
      tab.tabIndex = own ? 0 : -1;
    });
  }

  function choose(name) {
    if (name !== model.chosen) {
      model.chosen = name;
      mark();
    }
  }

  strip.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    let place = names.indexOf(model.chosen);
    if (step) place = (place + step + names.length) % names.length;
    else if (event.key === "Home") place = 0;
    else if (event.key === "End") place = names.length - 1;
    else return;
    event.preventDefault();
    choose(names[place]);
    tabs[place].focus();
  });
  model.on("chosen", mark);
  el.append(strip);
  mark();
}
