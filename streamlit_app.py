"""The screens: ``streamlit run streamlit_app.py``. Entry and navigation; the pages are in ``rag/ui``."""

import streamlit as st

from rag.ui.session import draw_sidebar, guard
from rag.ui.style import ICON, apply_style

st.set_page_config(page_title="온실지기", page_icon=ICON, layout="wide")
page = st.navigation(
    [
        st.Page("rag/ui/chat.py", title="대화", icon=":material/chat:", default=True),
        st.Page("rag/ui/compare.py", title="비교", icon=":material/compare_arrows:", url_path="compare"),
        st.Page("rag/ui/documents.py", title="문서", icon=":material/folder_open:", url_path="documents"),
    ]
)
apply_style()
with guard():
    draw_sidebar()
    page.run()
