"use strict";
const unspool = (() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const narrow = matchMedia("(max-width: 600px)");
  const places = [...document.querySelectorAll(".plot[data-figure]")];
  const drawn = new Set();

  // A page in a sandboxed frame has no storage: the choice then lasts as long as the page.
  const remember = (value) => { try { localStorage.setItem("unspool-theme", value); } catch { /* not kept */ } };
  const recall = () => { try { return localStorage.getItem("unspool-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  const read = (id) => JSON.parse(document.getElementById(id).textContent);

  const templates = read("templates");
  const template = () => ({ template: templates[isDark() ? "dark" : "light"] });

  // A text in lines of at most so many signs, where its words allow it.
  function breakLines(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const line = lines.at(-1);
      if (line && line.length + word.length >= most) lines.push(word);
      else lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
    return lines;
  }

  // plotly does not break titles, and a narrow screen has no room beside a figure for its legend.
  function fold(layout, place) {
    const title = typeof layout.title === "string" ? { text: layout.title } : layout.title;
    if (title?.text && !title.text.includes("<")) {
      const lines = breakLines(title.text, 39);
      layout.title = { ...title, text: lines.join("<br>"), font: { ...title.font, size: 14 } };
      let more = 20 * (lines.length - 1);
      const below = title.subtitle?.text;
      if (below && !below.includes("<")) {
        const rest = breakLines(below, 46);
        layout.title.subtitle = { ...title.subtitle, text: rest.join("<br>") };
        more += 16 * (rest.length - 1);
      }
      if (more && layout.height && layout.margin?.t) {
        layout.title.pad = { ...title.pad, t: (title.pad?.t ?? 0) + 20 * (lines.length - 1) };
        layout.margin = { ...layout.margin, t: layout.margin.t + more };
        layout.height += more;
        place.style.height = `${layout.height}px`;
      }
    }
    if (!layout.legend?.orientation) {
      layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: -0.25, yanchor: "top" };
    }
    layout.margin ??= { l: 56, r: 16 };
    for (const note of layout.annotations ?? []) note.font = { ...note.font, size: 10 };
    for (const [name, axis] of Object.entries(layout)) {
      if (/^[xy]axis/.test(name) && axis.ticktext) axis.ticktext = axis.ticktext.map(halve);
    }
  }

  // On a narrow screen, or beside another run, fewer names and numbers have room.
  function squeeze(figure, place) {
    const { layout } = figure;
    if (layout.coloraxis?.colorbar?.orientation === "h") thin(layout.coloraxis.colorbar);
    if (layout.dragmode === "pan" && layout.xaxis?.range) layout.xaxis.range[1] /= 2;
    // Aslant, names take room from the cells; upright, they would reach into a panel below.
    if (layout.xaxis?.type === "category" && !layout.xaxis2) layout.xaxis.tickangle = -90;
    rewrap(figure, place);
  }

  // A color bar as wide as the figure, with so few numbers that they stand upright beside each other.
  function thin(bar) {
    Object.assign(bar, { len: 1, tickangle: 0 });
    const every = Math.ceil((bar.tickvals?.length ?? 0) / 4);
    if (every > 1) for (const key of ["tickvals", "ticktext"]) bar[key] = bar[key].filter((_, place) => place % every === 0);
  }

  // Lines of a text in halves, each with the words of the whole line at a readable size.
  function rewrap(figure, place) {
    const { data: [trace], layout } = figure;
    if (!trace?.meta?.lines) return;
    const across = Math.ceil(trace.z[0].length / 2);
    const before = trace.z.length;
    const used = trace.text.flat().findLastIndex((text) => text !== "") + 1;
    const cut = (rows, blank) => {
      const flat = rows.flat().slice(0, used);
      while (flat.length % across) flat.push(blank);
      return Array.from({ length: flat.length / across }, (_, row) => flat.slice(row * across, (row + 1) * across));
    };
    Object.assign(trace, { z: cut(trace.z, null), text: cut(trace.text, ""), customdata: cut(trace.customdata, "") });
    layout.height += (trace.z.length - before) * trace.meta.lines;
    place.style.height = `${layout.height}px`;
  }

  // A long name in two lines, broken at the space nearest to its middle.
  function halve(text) {
    if (text.length <= 16 || text.includes("<")) return text;
    const spaces = [...text.matchAll(/ /g)].map((each) => each.index);
    const far = (place) => Math.abs(place - text.length / 2);
    const place = spaces.sort((one, other) => far(one) - far(other))[0];
    return place ? `${text.slice(0, place)}<br>${text.slice(place + 1)}` : text;
  }

  function prepare(figure, place) {
    const layout = figure.layout;
    delete layout.width;
    layout.autosize = true;
    Object.assign(layout, template());
    if (narrow.matches) fold(layout, place);
    if (place.clientWidth < 560) squeeze(figure, place);
    if (coarse.matches) layout.dragmode = false; // a finger on a figure scrolls the page
    return figure;
  }

  const config = {
    responsive: true, displaylogo: false, displayModeBar: coarse.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };

  // Marks that belong to one point stand out, in all figures of the measure, while the pointer is on one of them.
  const measured = (place) => place.dataset.figure.replace(/-\d+$/, "");
  const linked = (place) => (place.data ?? []).flatMap((trace, index) => (trace.meta?.link === undefined ? [] : [index]));
  function single(beside, number) {
    for (const place of places.filter((each) => measured(each) === measured(beside))) {
      const traces = linked(place);
      if (!traces.length) continue;
      const chosen = traces.map((index) => {
        if (number === null) return null;
        const { customdata, meta } = place.data[index];
        return customdata.flatMap((row, mark) => (row[meta.link] === number ? [mark] : []));
      });
      Plotly.restyle(place, { selectedpoints: chosen }, traces);
    }
  }
  function link(place) {
    if (!linked(place).length) return;
    place.on("plotly_hover", ({ points: [point] }) => {
      if (point.data.meta?.link !== undefined) single(place, point.customdata[point.data.meta.link]);
    });
    place.on("plotly_unhover", () => single(place, null));
  }

  function draw(place) {
    if (drawn.has(place)) return;
    drawn.add(place);
    const figure = prepare(read(`data-${place.dataset.figure}`), place);
    Plotly.newPlot(place, figure.data, figure.layout, config);
    link(place);
    place.dispatchEvent(new Event("drawn"));
  }

  function show(place, id) {
    drawn.add(place);
    const figure = prepare(read(id), place);
    Plotly.react(place, figure.data, figure.layout, config);
  }

  // What is in view comes first; the rest follows while the browser has nothing else to do.
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 30));
  function drawNext() {
    const place = places.find((each) => !drawn.has(each));
    if (!place) return;
    draw(place);
    idle(drawNext, { timeout: 200 });
  }
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px 0px" });

  function recolor() {
    for (const place of drawn) Plotly.relayout(place, template());
  }

  function setTheme(value) {
    if (value) root.dataset.theme = value;
    const button = document.getElementById("theme");
    const words = button.dataset; // a page in another language brings its own
    button.textContent = isDark() ? (words.light ?? "Light") : (words.dark ?? "Dark");
    const long = isDark() ? (words.toLight ?? "Show in light colors") : (words.toDark ?? "Show in dark colors");
    button.setAttribute("aria-label", long);
    recolor();
  }

  function print() {
    places.forEach(draw);
    root.dataset.printing = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    for (const place of drawn) Plotly.relayout(place, { ...template(), width: 660 });
  }
  function printed() {
    if (root.dataset.printing) root.dataset.theme = root.dataset.printing;
    else delete root.dataset.theme;
    delete root.dataset.printing;
    for (const place of drawn) Plotly.relayout(place, { ...template(), width: null, autosize: true });
  }

  function follow() {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const sections = [...links.keys()].map((id) => document.getElementById(id));
    const mark = () => {
      const passed = sections.filter((section) => section.getBoundingClientRect().top < innerHeight * 0.3);
      const here = passed.at(-1) ?? sections[0];
      for (const [id, link] of links) {
        if (id === here?.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    };
    addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true });
    mark();
    const details = document.querySelector(".contents details");
    if (!details) return;
    const wide = matchMedia("(min-width: 1001px)");
    const unfold = () => { details.open = wide.matches; };
    wide.addEventListener("change", unfold);
    unfold();
  }

  function offerNumbers() {
    const link = document.getElementById("download");
    if (!link) return;
    const blob = new Blob([document.getElementById("numbers").textContent], { type: "application/json" });
    link.href = URL.createObjectURL(blob);
  }

  const known = recall();
  setTheme(known === "dark" || known === "light" ? known : undefined);
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    remember(root.dataset.theme);
  });
  dark.addEventListener("change", () => setTheme());
  document.querySelector(".tools").hidden = false;
  offerNumbers();
  follow();
  places.forEach((place) => watcher.observe(place));
  setTimeout(() => idle(drawNext, { timeout: 200 }), 300);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", printed);

  return { show, read };
})();
