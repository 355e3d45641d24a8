"use strict";
// Pick a stage: what is not about it is hidden, and its rows in tables are marked.
const buttons = [...document.querySelectorAll(".pick button")];
function pick(stage) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.stage === stage));
  for (const part of document.querySelectorAll("[data-stages]")) {
    part.hidden = stage !== "" && !JSON.parse(part.dataset.stages).includes(stage);
  }
  for (const row of document.querySelectorAll("tbody tr")) {
    row.classList.toggle("picked", stage !== "" && row.cells[0].textContent === stage);
  }
}
for (const button of buttons) button.addEventListener("click", () => pick(button.dataset.stage));
document.querySelector(".pick").hidden = false;
