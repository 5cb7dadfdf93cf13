// The question as a form of the browser's own controls. Python lists the fields and their values,
// and receives {name, value} when a person changes one. Nothing that is typed is run.

const SEND_EVERY = 30; // milliseconds, while a slider moves
const MOST_BYTES = 200000; // of a file, before it is read; the server checks again

function element(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

function labelled(field, control) {
  const label = element("label", {for: control.id}, field.label);
  const row = element("div", {class: "field " + field.kind}, label, control);
  if (field.help) {
    const help = element("p", {class: "help", id: control.id + "-help"}, field.help);
    control.setAttribute("aria-describedby", help.id);
    row.append(help);
  }
  return row;
}

function marker(row, ...controls) { // says at a field what is wrong with it
  const said = element("p", {class: "mistake", id: controls[0].id + "-error", hidden: ""});
  const helped = controls.map((control) => control.getAttribute("aria-describedby") || "");
  row.append(said);
  return (words) => {
    said.textContent = words;
    said.hidden = !words;
    row.classList.toggle("wrong", Boolean(words));
    controls.forEach((control, place) => {
      const by = words ? `${helped[place]} ${said.id}`.trim() : helped[place];
      if (by) control.setAttribute("aria-describedby", by);
      else control.removeAttribute("aria-describedby");
      if (words) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    });
  };
}

function typing(control) { // whether a text is being typed that was not sent yet
  let open = false;
  control.addEventListener("input", () => { open = true; });
  for (const end of ["change", "blur"]) control.addEventListener(end, () => { open = false; });
  return {is: () => open, leave: () => { open = false; }};
}

const NOT_TYPED = {is: () => false, leave: () => {}};

function plain(field, control) { // a control with its label, its help and its error
  const row = labelled(field, control);
  const typed = control.type === "text" ? typing(control) : NOT_TYPED;
  return {row, typed, mark: marker(row, control), show: (value) => { control.value = value; }};
}

function select(field, send) {
  const control = element("select", {id: "in-" + field.name});
  const groups = {};
  for (const [value, text, group] of field.options) {
    const option = element("option", {value}, text);
    if (group && !groups[group]) control.append(groups[group] = element("optgroup", {label: group}));
    (groups[group] || control).append(option);
  }
  control.addEventListener("change", () => send(field.name, control.value));
  return plain(field, control);
}

function text(field, send) {
  const control = element("input", {
    id: "in-" + field.name, type: "text", placeholder: field.placeholder, autocomplete: "off",
    spellcheck: "false", maxlength: 200,
  });
  control.addEventListener("change", () => send(field.name, control.value));
  return plain(field, control);
}

function range(field, send) {
  const id = "in-" + field.name;
  const slider = element("input", {
    id, type: "range", min: 0, max: field.texts.length - 1, step: 1, title: field.help,
  });
  const exact = element("input", {
    id: id + "-exact", type: "text", class: "exact", "aria-label": field.label + ", exact value",
    autocomplete: "off", spellcheck: "false", maxlength: 40,
  });
  let waiting = false, again = false, dragging = false;
  function tell() { // at once, then at most every so often
    if (waiting) {
      again = true;
      return;
    }
    send(field.name, {index: Number(slider.value)});
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (again) {
        again = false;
        tell();
      }
    }, SEND_EVERY);
  }
  slider.addEventListener("pointerdown", () => { dragging = true; });
  slider.addEventListener("pointerup", () => { dragging = false; });
  slider.addEventListener("input", () => {
    exact.value = field.texts[slider.value];
    slider.setAttribute("aria-valuetext", exact.value);
    tell();
  });
  exact.addEventListener("change", () => send(field.name, {text: exact.value}));
  const head = element("div", {class: "head"}, element("label", {for: id}, field.label), exact);
  const row = element("div", {class: "field range"}, head, slider);
  return {
    row,
    typed: typing(exact),
    mark: marker(row, exact, slider),
    show: (value) => {
      if (dragging || again) return;
      slider.value = value.index;
      slider.setAttribute("aria-valuetext", value.text);
      exact.value = value.text;
      row.dataset.mark = value.mark;
    },
  };
}

function file(field, send) {
  const control = element("input", {id: "in-" + field.name, type: "file", accept: field.accept});
  const take = (chosen) => {
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) {
      send(field.name, {file: chosen.name, size: chosen.size});
      return;
    }
    chosen.text().then((content) => send(field.name, {file: chosen.name, text: content}));
  };
  control.addEventListener("change", () => { take(control.files[0]); control.value = ""; });
  const row = labelled(field, control);
  row.addEventListener("dragover", (event) => { event.preventDefault(); row.classList.add("over"); });
  row.addEventListener("dragleave", () => row.classList.remove("over"));
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    row.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  return {row, typed: NOT_TYPED, mark: marker(row, control), show: () => {}};
}

function button(field, send) {
  const control = element("button", {type: "button", id: "in-" + field.name}, field.label);
  control.addEventListener("click", () => send(field.name, true));
  const row = element("div", {class: "field button"}, control);
  return {row, typed: NOT_TYPED, mark: () => {}, show: () => {}};
}

const KINDS = {select, text, range, file, button};

const wide = () => window.innerWidth > 900; // where the form stands beside the answer

export function render({model, el}) {
  const form = element("form", {class: model.always ? "question inside" : "question"});
  form.addEventListener("submit", (event) => event.preventDefault());
  el.append(form);
  const send = (name, value) => model.send_msg({name, value});
  let shown = {}, open = {};

  function refresh() {
    for (const [name, control] of Object.entries(shown)) {
      const wrong = model.errors[name] !== undefined; // what was typed stays, to be mended
      const known = model.values[name] !== undefined;
      if (known && !wrong && !control.typed.is()) control.show(model.values[name]);
    }
  }

  function leave() { // what is being typed goes with the question that it was typed for
    for (const control of Object.values(shown)) control.typed.leave();
    refresh();
  }

  function marks() {
    for (const [name, control] of Object.entries(shown)) {
      control.mark(model.errors[name] || "");
      if (model.errors[name]) control.row.closest("details").open = true;
    }
    refresh();
  }

  function build() {
    const inside = el.getRootNode().activeElement;
    const focused = inside ? inside.id : null;
    for (const group of form.querySelectorAll("details")) open[group.dataset.name] = group.open;
    form.replaceChildren();
    shown = {};
    for (const group of model.groups) {
      const body = element("div", {class: "fields"});
      for (const field of group.fields) {
        shown[field.name] = KINDS[field.kind](field, send);
        body.append(shown[field.name].row);
      }
      const kept = group.name in open ? open[group.name] : group.open && (model.always || wide());
      const title = element("summary", {}, element("h2", {}, group.title));
      form.append(element("details", {open: kept ? "" : null, "data-name": group.name}, title, body));
    }
    marks();
    if (focused) form.querySelector("#" + CSS.escape(focused))?.focus();
  }

  model.on("groups", build);
  model.on("values", refresh);
  model.on("errors", marks);
  build();
  if (!model.always) {
    remember(model, send, leave);
    measure(send);
  }
}

// Every question that settles is a step of the browser's history; going back asks it again.
function remember(model, send, leave) {
  let returning = null; // the question that the browser went back to, until Python has it
  window.history.replaceState({link: model.link}, "", window.location.href);
  model.on("link", () => {
    if (returning !== null) {
      if (model.link === returning) returning = null;
      return;
    }
    if ((window.history.state || {}).link === model.link) return;
    window.history.pushState({link: model.link}, "", window.location.pathname + model.link);
  });
  window.addEventListener("popstate", (event) => {
    if (!event.state || event.state.link === undefined) return;
    returning = event.state.link;
    leave();
    send("link", returning);
  });
}

// How wide the page is decides which names a picture has room for.
function measure(send) {
  let told = 1440, timer;
  const tell = () => {
    if (window.innerWidth !== told) send("width", told = window.innerWidth);
  };
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 300);
  });
  tell();
}
