// Runs first. The library that draws is kept compressed, which makes a page a third as large: unpack it, run it, then
// run the page's own scripts in their order. The page's policy names all of them by their hashes.
(async () => {
  "use strict";
  const run = (code) => document.body.appendChild(document.createElement("script")).append(code);
  if (!("DecompressionStream" in globalThis)) {
    for (const notice of document.querySelectorAll(".old-browser")) notice.hidden = false;
    return;
  }
  const packed = atob(document.getElementById("library").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  run(await new Response(unpacked).text());
  for (const script of document.querySelectorAll("script.then")) run(script.textContent);
})();
