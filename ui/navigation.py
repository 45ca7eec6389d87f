"""The pages and their order: one entry here and one file in `pages/` make a page. Knows no page's insides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import streamlit as st

from ui import state

PAGES_DIR = Path(__file__).resolve().parent.parent / "pages"


@dataclass(frozen=True, slots=True)
class PageSpec:
    """`key` names the file, the address and the texts `shell.nav_<key>`; `group` names the text `shell.group_<group>`. `awaits`: what the
    page is drawn anew for while a run moves, its "tokens" and its "prefill"; all else that moves is drawn in the browser."""

    key: str
    group: str
    icon: str
    awaits: frozenset[str] = frozenset({"tokens", "prefill"})

    @property
    def path(self) -> str:
        """Its address below the app's own; the first page's is the app's."""
        return "" if self is PAGES[0] else self.key


PAGES = (
    PageSpec("home", "exam", ":material/school:"),
    PageSpec("tokenize", "exam", ":material/content_cut:"),
    PageSpec("prefill", "exam", ":material/menu_book:"),
    PageSpec("decode", "exam", ":material/ink_pen:", awaits=frozenset({"tokens"})),
    PageSpec("detokenize", "exam", ":material/outgoing_mail:"),
    PageSpec("marks", "marks", ":material/timer:", awaits=frozenset({"tokens"})),
    PageSpec("sweeps", "marks", ":material/stacked_line_chart:", awaits=frozenset()),
    PageSpec("records", "marks", ":material/folder_open:"),
)


def pages() -> dict[str, st.Page]:
    """All pages by key, in this session's language; the first is the default."""
    return {
        spec.key: st.Page(
            PAGES_DIR / f"{spec.key}.py",
            title=state.t(f"shell.nav_{spec.key}"),
            icon=spec.icon,
            url_path=spec.key,
            default=spec is PAGES[0],
        )
        for spec in PAGES
    }


def spec_of(page: st.Page) -> PageSpec:
    """What is known of a page that `st.navigation` gave."""
    return next(spec for spec in PAGES if spec.path == page.url_path)


def menu(known: dict[str, st.Page]) -> None:
    """The grouped links of the sidebar. Each carries the run, so that it may be opened in another tab."""
    for group, specs in groupby(PAGES, key=lambda spec: spec.group):
        with st.container(gap="xsmall", key=f"menu_{group}"):
            st.caption(state.t(f"shell.group_{group}"))
            for spec in specs:
                st.page_link(known[spec.key], icon=spec.icon, width="stretch", query_params=state.url_params())


def link(key: str, label: str, *, icon: str | None = None) -> None:
    """A link from one page to another that keeps the run."""
    st.page_link(PAGES_DIR / f"{key}.py", label=label, icon=icon, query_params=state.url_params())
