// The bar for ticked jobs says how many there are and asks with their number; a change of all that match can be stopped.
"use strict";

(() => {
  const MOST_NAMED = 30
  const boxes = () => [...document.querySelectorAll("#live input[name=id]:checked")]

  function tell() {
    const bar = document.getElementById("ticked")
    if (!bar) return
    const ids = boxes().map((box) => box.value)
    bar.hidden = !ids.length
    bar.querySelector("[data-ticked]").textContent = ids.length
    for (const button of bar.querySelectorAll("[data-word]")) {
      const value = button.dataset.value ? ` ${document.querySelector(button.dataset.value).value}` : ""
      button.dataset.confirm = `${button.dataset.word} ${ids.length} ticked ${ids.length === 1 ? "job" : "jobs"}${value ? ` to${value}` : ""}?`
      button.dataset.shell = ids.length > MOST_NAMED ? "" : `${button.dataset.command} ${ids.join(" ")}${value}`
    }
  }

  function untick() {
    for (const box of document.querySelectorAll("#live input[type=checkbox]")) box.checked = false
    tell()
  }

  /** An answer that was on its way when the change was stopped goes on no more. */
  function halt() {
    const progress = document.querySelector("#progress[data-stopped]"), form = progress?.querySelector("form")
    if (!form) return
    progress.querySelector("h2").textContent = "Stopped"
    form.replaceWith("What was done stays done.")
  }

  document.addEventListener("change", () => setTimeout(tell))
  document.addEventListener("input", tell)
  document.addEventListener("oncue:shown", tell)
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-untick]")) untick()
    if (event.target.closest?.("[data-stop]")) {
      document.getElementById("progress").dataset.stopped = ""
      halt()
    }
  })
  document.addEventListener("htmx:afterSettle", halt)
  document.addEventListener("htmx:beforeRequest", (event) => {
    const progress = document.getElementById("progress")
    if (event.target.closest?.("#progress[data-stopped]")) event.preventDefault()
    else if (progress && event.detail.target === progress && !progress.contains(event.target)) delete progress.dataset.stopped
  })
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful && event.target.closest?.("#ticked")) untick()
  })
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && boxes().length) untick()
  })
  tell()
})()
