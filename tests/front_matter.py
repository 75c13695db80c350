"""How every chapter of the small books made in tests begins, in its canonical form."""

FRONT_MATTER = """\
---
jupytext:
  text_representation:
    format_name: myst
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---
"""
