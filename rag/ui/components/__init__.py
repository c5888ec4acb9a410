"""Pieces of the pages: each draws one thing that a person sees."""
