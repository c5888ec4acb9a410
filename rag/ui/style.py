"""The look of the pieces that Streamlit has no widget for. Colours are see-through, so light and dark both work."""

from __future__ import annotations

import streamlit as st

from rag.schema import CHANNEL_COLOURS

# Drawn here: Streamlit would fetch a material icon or an emoji for the browser tab from the network.
ICON = """<svg xmlns="http://www.w3.org/2000/svg" width="32" height="32" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#1b7f5a"/>
<path d="M16 27V15c0-5 4-8 9-8 0 6-3 9-9 9M16 20c-5 0-8-3-8-8 5 0 8 3 8 8" fill="none" stroke="#fff" stroke-width="2.4"/>
</svg>"""
_CSS = """
<style>
.on-text { max-width: 54em; line-height: 1.75; white-space: pre-wrap; overflow-wrap: anywhere; }
.on-doubt { text-decoration: underline dotted 2px #c8453a; text-underline-offset: 4px; }
.on-contra { color: #b3261e; color: light-dark(#b3261e, #ff8a80); text-decoration: underline wavy 1px; text-underline-offset: 4px; }
.on-note { color: #b3372c; color: light-dark(#a92f25, #ff9a8f); font-size: .85em; }
.on-muted { opacity: .75; font-size: .88em; }
.on-cite { border: 1px solid rgba(27,127,90,.6); background: rgba(27,127,90,.14); color: inherit; border-radius: 6px;
  padding: 0 .4em; margin: 0 .15em; font: inherit; font-size: .82em; line-height: 1.5; cursor: pointer; }
.on-cite:hover, .on-cite:focus { background: rgba(27,127,90,.35); }
.on-passage { max-width: 54em; border-left: 3px solid rgba(128,128,128,.5); padding: .2em 0 .2em .8em; line-height: 1.7;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.on-text mark, .on-passage mark { background: rgba(255,214,10,.42); color: inherit; padding: .05em .1em; border-radius: 3px; }
.on-near { opacity: .7; }
.on-head { font-weight: 600; }
.on-tag { display: inline-block; border: 1px solid rgba(128,128,128,.45); border-radius: 6px; padding: 0 .45em;
  margin: 0 .3em .2em 0; font-size: .85em; }
.on-scroll { overflow-x: auto; }
table.on-table { border-collapse: collapse; width: 100%; font-size: .9em; }
.on-table th, .on-table td { padding: .3em .55em; border-bottom: 1px solid rgba(128,128,128,.3); text-align: left;
  vertical-align: top; word-break: keep-all; }
.on-table td.on-wide { min-width: 8.5em; }
.on-table td.on-nowrap { white-space: nowrap; }
.on-table td.on-name, .on-name { overflow-wrap: anywhere; word-break: normal; }
.on-table td.on-name { min-width: 11em; }
.on-table th { font-weight: 600; }
.on-table td.on-n { white-space: nowrap; }
.on-table td.on-n, .on-table th.on-n { text-align: right; font-variant-numeric: tabular-nums; }
.on-dot { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .35em; }
.on-bar { display: inline-block; height: .7em; border-radius: 2px; vertical-align: baseline; margin-right: .4em; }
.on-stack { display: flex; width: 100%; height: 1.5em; border-radius: 4px; overflow: hidden; }
.on-stack > span { color: #fff; font-size: .8em; line-height: 1.9; text-align: center; overflow: hidden;
  white-space: nowrap; text-shadow: 0 0 3px rgba(0,0,0,.7); }
.on-slot { border-radius: 4px; padding: .1em .25em; border-bottom: 3px solid; cursor: help; }
.on-up { color: #1b8a5f; color: light-dark(#12704c, #5fd8a2); font-weight: 600; }
.on-down { color: #c8453a; color: light-dark(#a92f25, #ff9a8f); font-weight: 600; }
[data-testid="stFileUploaderDropzone"] button[data-testid="stBaseButton-secondary"] p { font-size: 0; }
[data-testid="stFileUploaderDropzone"] button[data-testid="stBaseButton-secondary"] p::after { content: "파일 고르기"; font-size: 1rem; }
[data-testid="stFileUploaderDropzoneInstructions"] { display: none; }
[data-testid="stFileUploader"]:has([aria-invalid="true"])::after { color: #b3372c; color: light-dark(#a92f25, #ff9a8f);
  content: "붉은 파일은 받지 않았습니다. 한도보다 크면 나누어 올리고, 아니면 다시 올려 주세요."; font-size: .9em; }
[class*="st-key-panels-"] [role="toolbar"] { flex-wrap: wrap; mask-image: none; }
.on-rank { margin: .35em 0; line-height: 1.5; overflow-wrap: anywhere; }
@media (max-width: 1000px) { table.on-table { font-size: .8em; } .on-table th, .on-table td { padding: .3em .35em; } }
</style>
"""
# A click on a number inside the answer presses the button of the same name below it.
_SCRIPT = """
<script>
if (!window.onsilCites) {
  window.onsilCites = true;
  document.addEventListener("click", (event) => {
    const cite = event.target.closest("button.on-cite[data-cite]");
    if (cite) document.querySelector(".st-key-" + CSS.escape(cite.dataset.cite) + " button")?.click();
  });
}
</script>
"""


def apply_style() -> None:
    """Style and the one script, at the start of every run. (``light-dark`` follows Streamlit's theme; older browsers
    take the colour before it.)"""
    st.html(_CSS)
    st.html(_SCRIPT, unsafe_allow_javascript=True)


def dark() -> bool:
    """Whether the viewer sees the dark theme."""
    return st.context.theme.type == "dark"


def ink() -> str:
    """Text colour for charts."""
    return "#f2f2f2" if dark() else "#2b2d36"


def colour(channel: str) -> str:
    """The channel's colour everywhere."""
    return CHANNEL_COLOURS.get(channel, "#888888")
