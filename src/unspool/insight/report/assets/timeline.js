"use strict";
(() => {
  const names = unspool.read("timeline").frames;
  const slider = document.getElementById("frame");
  const button = document.getElementById("play");
  const moment = document.getElementById("moment");
  const verdicts = [...document.querySelectorAll(".moment")];
  const places = [...document.querySelectorAll(".plot[data-timeline]")];
  const lines = [...document.querySelectorAll(".plot[data-figure^='line-']")];
  let timer = null;

  function show(number) {
    slider.value = number;
    moment.textContent = names[number];
    slider.setAttribute("aria-valuetext", names[number]);
    verdicts.forEach((each, place) => { each.hidden = place !== number; });
    for (const place of places) {
      const id = `data-${place.dataset.timeline}-${number}`;
      place.style.visibility = document.getElementById(id) ? "" : "hidden"; // this moment has no such picture
      if (document.getElementById(id)) unspool.show(place, id);
    }
    lines.filter((line) => line.classList.contains("js-plotly-plot")).forEach(point);
  }

  // A line across each chart at the moment that is shown.
  function point(line) {
    const number = Number(slider.value);
    const color = getComputedStyle(document.documentElement).getPropertyValue("--muted").trim();
    const across = { type: "line", xref: "x", yref: "paper", x0: number, x1: number, y0: 0, y1: 1 };
    Plotly.relayout(line, { shapes: [{ ...across, line: { color, width: 1, dash: "dot" } }] });
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = button.dataset.play;
  }

  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(slider.value) === names.length - 1) show(0);
    button.textContent = button.dataset.pause;
    timer = setInterval(() => {
      const next = Number(slider.value) + 1;
      if (next >= names.length) stop();
      else show(next);
    }, 600);
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  lines.forEach((line) => line.addEventListener("drawn", () => point(line)));
  document.querySelector(".player").hidden = false;
  show(names.length - 1);
})();
