// Times in the reader's zone, messages, questions before a change, copying, and the page anew after a change.
"use strict";

const keep = (name, value) => { try { localStorage.setItem(`oncue-${name}`, value) } catch { /* private windows */ } }

// --- times -----------------------------------------------------------------------------------------------------------

const zone = () => document.documentElement.dataset.zone === "utc" ? "UTC" : undefined
const pad = (number) => String(number).padStart(2, "0")

function written(at) {
  const utc = zone() === "UTC"
  const [year, month, day] = utc ? [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()] : [at.getFullYear(), at.getMonth(), at.getDate()]
  const [hour, minute, second] = utc ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()] : [at.getHours(), at.getMinutes(), at.getSeconds()]
  return `${year}-${pad(month + 1)}-${pad(day)} ${pad(hour)}:${pad(minute)}:${pad(second)}${utc ? " UTC" : ""}`
}

function away(at) {
  const seconds = Math.round((at - Date.now()) / 1000), size = Math.abs(seconds)
  const text = size < 60 ? `${size} s` : size < 3600 ? `${Math.floor(size / 60)} min` : size < 172800
    ? `${Math.floor(size / 3600)} h ${Math.floor(size % 3600 / 60)} min` : `${Math.floor(size / 86400)} days`
  return size < 2 ? "now" : seconds < 0 ? `${text} ago` : `in ${text}`
}

/** An instant on an axis: `clock` is 14:00, `day` is Fri 20, with the time if that is not midnight. */
function brief(at, form) {
  const text = written(at), day = zone() === "UTC" ? at.getUTCDay() : at.getDay()
  const clock = text.slice(11, 16), date = `${["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][day]} ${text.slice(8, 10)}`
  return form === "clock" ? clock : clock === "00:00" ? date : `${date} ${clock}`
}

function showTimes(root = document) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.getAttribute("datetime"))
    if (isNaN(at)) continue
    const text = element.hasAttribute("data-ago") ? away(at) : element.dataset.form ? brief(at, element.dataset.form) : written(at)
    if (element.textContent !== text) element.textContent = text
    if (element.hasAttribute("data-ago")) element.title = `${written(at)}${zone() === "UTC" ? "" : ` · ${at.toISOString().slice(0, 19).replace("T", " ")} UTC`}`
  }
}

function showZone() {
  const name = zone() || Intl.DateTimeFormat().resolvedOptions().timeZone || "local"
  for (const element of document.querySelectorAll("[data-zone-name]")) element.textContent = name.split("/").pop().replace(/_/g, " ")
  showTimes()
}

// --- what is morphed into the page keeps what the reader has opened, chosen and typed ---------------------------------

if (window.Idiomorph) {
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
    !(name === "open" && ["DETAILS", "DIALOG"].includes(element.tagName)) && !(name === "checked" || name === "value" && element.matches("input:not([type=hidden]),select,textarea"))
  // A text that the script has written is the reader's: it is written anew after the morph.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
    !(old.nodeType === 1 && old.matches("[data-chart]") && old.dataset.chart === fresh.dataset?.chart)
}

function put(target, html) {
  if (!target) return
  // What is being typed stays. The words on a button that has the focus must change with what it does.
  Idiomorph.defaults.ignoreActiveValue = document.activeElement?.matches("input,select,textarea") ?? false
  htmx.swap(target, html, { swapStyle: "morph:innerHTML", swapDelay: 0, settleDelay: 0 }, { contextElement: target })
  shown(target)
}

/** Whatever has to happen with new content. */
function shown(root) {
  showTimes(root)
  document.dispatchEvent(new CustomEvent("oncue:shown", { detail: root }))
}

async function showAnew() {
  const answer = await fetch(location.href, { headers: { "X-Requested-With": "oncue" } }).catch(() => null)
  if (!answer || !answer.ok) return
  const page = new DOMParser().parseFromString(await answer.text(), "text/html")
  const fresh = page.getElementById("main"), main = document.getElementById("main")
  if (fresh && main) put(main, fresh.innerHTML)
}

document.addEventListener("oncue:changed", showAnew)
document.addEventListener("htmx:afterSettle", (event) => shown(event.target))
// A browser repeats a request by itself when the server went away in the middle of it. The server does each click once.
document.addEventListener("htmx:configRequest", (event) => { event.detail.headers["X-Once"] = crypto.getRandomValues(new Uint32Array(4)).join("-") })
document.addEventListener("htmx:sendError", () => say("error", "The server does not answer. It is unknown whether the change took effect."))

// --- messages --------------------------------------------------------------------------------------------------------

function say(kind, text) {
  const toast = document.createElement("div"), line = document.createElement("p"), close = document.createElement("button")
  toast.className = `toast ${kind}`
  toast.setAttribute("role", kind === "error" ? "alert" : "status")
  line.textContent = text
  Object.assign(close, { type: "button", className: "icon-button", textContent: "×", ariaLabel: "Dismiss" })
  close.dataset.dismiss = ""
  toast.append(line, close)
  document.getElementById("toasts").append(toast)
}

new MutationObserver((changes) => {
  for (const change of changes) for (const toast of change.addedNodes) {
    if (toast.nodeType === 1 && toast.matches(".toast:not(.error)")) setTimeout(() => toast.remove(), 8000)
  }
}).observe(document.getElementById("toasts"), { childList: true })

// What was said of the last attempt is over with the next one. The field that was refused is where to go on.
document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.matches("form,button")) for (const toast of document.querySelectorAll(".toast.error")) toast.remove() })
document.addEventListener("oncue:refused", (event) => {
  const form = event.target.closest("form")
  for (const name of form ? event.detail.fields : []) {
    const field = form.elements.namedItem(name)
    if (field?.matches?.("input:not([type=hidden]),select,textarea")) return field.focus()
  }
})

// --- a question before a change ---------------------------------------------------------------------------------------

document.addEventListener("htmx:confirm", (event) => {
  const form = event.target.closest("[data-confirm]")
  if (!form || event.detail.issuedByUs) return
  event.preventDefault()
  const dialog = document.getElementById("confirm"), shell = dialog.querySelector(".command")
  dialog.querySelector("#confirm-text").textContent = form.dataset.confirm
  shell.hidden = !form.dataset.shell
  shell.querySelector("code").textContent = form.dataset.shell || ""
  dialog.returnValue = "no"
  dialog.addEventListener("close", () => { if (dialog.returnValue === "yes") event.detail.issueRequest(true) }, { once: true })
  dialog.showModal()
})

// --- clicks ----------------------------------------------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const on = (selector) => event.target.closest?.(selector)
  const copy = on("[data-copy]"), menu = on("[data-menu]"), row = on("tr[data-href]")
  if (on("[data-dismiss]")) on(".toast").remove()
  else if (copy) {
    try { await navigator.clipboard.writeText(copy.dataset.copy); say("ok", "Copied.") } catch { say("error", "The browser does not let a page copy here.") }
  } else if (on("[data-theme-switch]")) {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches
    root.dataset.theme = dark ? "light" : "dark"
    keep("theme", root.dataset.theme)
    document.dispatchEvent(new CustomEvent("oncue:theme"))
  } else if (on("[data-zone-switch]")) {
    const root = document.documentElement
    root.dataset.zone = root.dataset.zone === "utc" ? "local" : "utc"
    keep("zone", root.dataset.zone)
    showZone()
    document.dispatchEvent(new CustomEvent("oncue:theme"))
  } else if (menu) {
    menu.setAttribute("aria-expanded", String(document.body.classList.toggle("menu-open")))
  } else if (row && !on("a,button,input,label,summary") && !String(getSelection())) {
    location.href = row.dataset.href
  }
})

document.addEventListener("change", (event) => {
  const all = event.target.closest?.("[data-check-all]")
  if (all) for (const box of all.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = all.checked
  const auto = event.target.closest?.("form[data-auto]")
  if (auto) auto.requestSubmit()
})

showZone()
setInterval(showTimes, 1000)
