// One stream of events for this tab, while it is seen. What comes is morphed into the page.
"use strict";

(() => {
  const body = document.body, state = document.getElementById("live-state"), target = document.getElementById("live")
  if (state && !target) state.hidden = true // nothing of this page is shown anew
  if (!state || !target) return
  const WORDS = { connecting: "connecting", live: "live", paused: "paused", away: "database away", stale: "out of date", lost: "reconnecting", "signed-out": "signed out" }
  let stream = null, again = 0

  function tell(name, why = "") {
    state.dataset.state = name
    state.querySelector(".word").textContent = WORDS[name]
    state.title = why
  }

  function open() {
    if (stream || document.hidden) return
    clearTimeout(again)
    tell("connecting")
    stream = new EventSource(`${body.dataset.base}/live?page=${encodeURIComponent(body.dataset.page)}`)
    stream.onopen = () => tell("live")
    stream.onerror = lost
    stream.addEventListener("page", (event) => {
      tell("live")
      put(target, JSON.parse(event.data))
    })
    for (const name of ["away", "stale"]) stream.addEventListener(name, (event) => tell(name, JSON.parse(event.data)))
  }

  function close() {
    stream?.close()
    stream = null
    clearTimeout(again)
  }

  async function lost() {
    tell("lost")
    if (stream && stream.readyState !== EventSource.CLOSED) return // the browser tries again by itself
    close()
    const answer = await fetch(`${body.dataset.base}/signed-in`).catch(() => null)
    if (answer?.status === 401) return tell("signed-out", "The session is over: load the page again.")
    if (!document.hidden) again = setTimeout(open, 3000)
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return open()
    close()
    tell("paused")
  })
  addEventListener("pagehide", close)
  addEventListener("pageshow", open)
  open()
})()
