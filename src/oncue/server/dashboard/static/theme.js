// Runs before the page is drawn: the reader's choice of theme and zone, if there is one.
(() => {
  const kept = (name) => { try { return localStorage.getItem(`oncue-${name}`) } catch { return null } }
  const theme = kept("theme")
  if (theme) document.documentElement.dataset.theme = theme
  document.documentElement.dataset.zone = kept("zone") || "local"
})()
