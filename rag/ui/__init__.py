"""The Streamlit screens. The only package besides the entry that imports streamlit."""
