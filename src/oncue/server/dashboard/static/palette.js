// Ctrl+K: any page, a job by its number, a schedule, window, webhook or queue by its name, else jobs by task or key. `/` goes to the search of a page.
"use strict";

(() => {
  const dialog = document.getElementById("palette"), list = document.getElementById("palette-list"), input = dialog?.querySelector("input")
  const rooms = document.getElementById("rooms")
  if (!dialog || !rooms) return
  const base = document.body.dataset.base
  const pages = [...rooms.querySelectorAll("a")].map((link) => ({ text: link.textContent.trim(), href: link.getAttribute("href"), kind: "page" }))
  const may = ["read", ...(document.body.dataset.may || "").split(" ")]
  for (const [text, path, needs] of [["Failed jobs", "/jobs?status=failed", "read"], ["Calendar of schedules", "/calendar", "read"],
    ["New schedule", "/new-schedule", "operate"], ["New webhook", "/new-webhook", "operate"], ["Executions of webhooks", "/executions", "read"],
    ["Doctor", "/settings/doctor", "read"], ["Tokens and sessions", "/settings/access", "admin"]]) {
    if (may.includes(needs)) pages.push({ text, href: base + path, kind: "page" })
  }
  let chosen = 0, found = [], asked = 0

  function show(items) {
    found = items
    chosen = Math.min(chosen, Math.max(found.length - 1, 0))
    list.replaceChildren(...found.map((item, number) => {
      const line = document.createElement("li"), kind = document.createElement("span")
      line.id = `palette-${number}`
      line.setAttribute("role", "option")
      line.setAttribute("aria-selected", String(number === chosen))
      line.textContent = item.text
      kind.className = "kind"
      kind.textContent = item.kind
      line.append(kind)
      line.addEventListener("click", () => { location.href = item.href })
      return line
    }))
    input.setAttribute("aria-activedescendant", found.length ? `palette-${chosen}` : "")
    list.children[chosen]?.scrollIntoView({ block: "nearest" })
  }

  async function search() {
    const words = input.value.trim(), number = ++asked
    const local = pages.filter((page) => page.text.toLowerCase().includes(words.toLowerCase()))
    if (/^\d+$/.test(words)) local.unshift({ text: `Job ${words}`, href: `${base}/jobs/${words}`, kind: "job" })
    chosen = 0
    show(local)
    if (!words) return
    const answer = await fetch(`${base}/names?part=${encodeURIComponent(words)}`).catch(() => null)
    if (!answer?.ok || number !== asked) return
    const all = [...local, ...(await answer.json()).names]
    show(all.length ? all : [{ text: `Jobs with the task or key ${words}`, href: `${base}/jobs/find?q=${encodeURIComponent(words)}`, kind: "search" }])
  }

  function open() {
    if (dialog.open) return
    input.value = ""
    dialog.showModal()
    search()
  }

  input.addEventListener("input", search)
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step && found.length) {
      event.preventDefault()
      chosen = (chosen + step + found.length) % found.length
      show(found)
    } else if (event.key === "Enter" && found[chosen]) {
      event.preventDefault()
      location.href = found[chosen].href
    }
  })
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close() })
  document.querySelector("[data-palette]")?.addEventListener("click", open)
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input,textarea,select")
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault()
      open()
    } else if (event.key === "/" && !typing) {
      const field = document.querySelector("#main [data-search]")
      if (field) { event.preventDefault(); field.focus() }
    }
  })
})()
