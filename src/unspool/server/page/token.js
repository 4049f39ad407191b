// The dialog that asks for the server's token.

import { field, h } from "./dom.js";

let asking = null;

/** The token that the user gives; several requests that need one share the dialog. */
export function askToken(wrong) {
  asking ??= new Promise((resolve) => {
    const input = h("input", { type: "password", autocomplete: "off", required: true, spellcheck: false });
    const form = h("form", { method: "dialog" },
      h("h2", { id: "token-title" }, "Token"),
      h("p", { class: "quiet" }, wrong ? "That token is not one of this server. Try again." : "This server wants a token. It is kept until you close this tab."),
      field("Token", input),
      h("button", { class: "primary" }, "Continue"));
    const dialog = h("dialog", { "aria-labelledby": "token-title" }, form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.remove();
      asking = null;
      resolve(input.value.trim());
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
